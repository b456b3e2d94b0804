"""Summaries behind the backs of clients whose very first call is long."""

from proxy.server.newcomers import Newcomers


def test_one_new_conversation_may_have_a_summary_until_it_goes_on():
    newcomers = Newcomers()

    assert newcomers.may_have_one("a", is_new=True)
    # The same call once more, as after a failure.
    assert newcomers.may_have_one("a", is_new=True)
    assert not newcomers.may_have_one("b", is_new=True)
    assert newcomers.may_have_one("b", is_new=False)
    assert newcomers.may_have_one("c", is_new=True)


def test_a_client_whose_conversations_never_go_on_gets_one_and_no_more():
    newcomers = Newcomers()

    assert [newcomers.may_have_one(f"s{number}", is_new=True) for number in range(4)] == [True, False, False, False]


def test_others_that_go_on_do_not_speak_for_it():
    newcomers = Newcomers()
    newcomers.may_have_one("a", is_new=True)

    assert newcomers.may_have_one("old", is_new=False)
    assert not newcomers.may_have_one("b", is_new=True)
