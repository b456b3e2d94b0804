"""What happens to results before a model sees them."""

import pytest

from proxy.conversation.edit import Plan
from proxy.conversation.model import Media
from proxy.pruning.arrival import arrive
from proxy.pruning.policy import ArrivePolicy
from proxy.pruning.situation import Prices
from tests.pruning.builders import (
    a_situation,
    answered,
    call,
    count,
    next_turn,
    part_tokens,
    places,
    result,
    rounds,
    user,
    words,
)

BOLD = ArrivePolicy(collapse=True)


def numbered(first, last, word="line"):
    return "\n".join(f"{word} number {n} says something of its own" for n in range(first, last))


def test_only_results_that_no_model_has_seen_are_touched():
    text = words("same", 500)

    assert arrive(a_situation(answered(rounds(text, text))), ArrivePolicy()) == ()


def test_a_run_of_lines_that_stands_in_an_earlier_result_becomes_a_reference():
    situation = a_situation(rounds(numbered(0, 100), "new head\n" + numbered(10, 90) + "\nnew tail"))

    (edit,) = arrive(situation, ArrivePolicy())

    assert edit.kind == "repeat"
    assert edit.of == situation.keys[2]
    assert edit.text.startswith("new head\n[80 lines, unchanged, as the earlier call read(")
    assert edit.text.endswith("new tail")


def test_the_second_of_two_equal_unseen_results_refers_to_the_first():
    text = words("same", 500)
    two = [*rounds(), call("a"), result("a", text)]
    situation = a_situation([*two, call("b"), result("b", text)][:4])

    assert arrive(situation, ArrivePolicy()) == ()


def test_a_reference_never_points_to_a_text_that_is_not_whole():
    text = words("same", 500)
    first = a_situation(rounds(text, text))
    plan = Plan(arrive(first, ArrivePolicy()))
    third = next_turn(first, plan.edits, call("z"), result("z", text))

    (edit,) = arrive(third, ArrivePolicy())

    assert edit.of == first.keys[2]


def test_nothing_is_said_twice_about_one_result():
    text = words("same", 500)
    situation = a_situation(rounds(text, text))
    retried = a_situation(situation.messages, Plan(arrive(situation, ArrivePolicy())))

    assert arrive(retried, ArrivePolicy()) == ()


@pytest.mark.parametrize("more", [{"is_error": True}, {"media": (Media(kind="image", width=10, height=10),)}])
def test_an_error_and_what_a_picture_stands_beside_are_cut_where_they_would_fill_the_window_and_only_there(more):
    coloured = "\x1b[32mfine\x1b[0m\n" * 60
    small = [*rounds(coloured), call("e"), result("e", coloured, **more)]
    large = [*rounds(), call("e"), result("e", numbered(0, 2000), **more)]
    unbounded = arrive(a_situation(large), ArrivePolicy(cap_share=0.5))
    (edit,) = arrive(a_situation(large, window=10_000, reserve=2_000), ArrivePolicy(cap_share=0.5))

    assert arrive(a_situation(small, window=10_000, reserve=2_000), BOLD) == unbounded == ()
    assert edit.kind == "cap"
    assert edit.tokens_after <= 4_000
    assert edit.text.startswith("line number 0 ")
    assert edit.text.endswith("line number 1999 says something of its own")
    assert ("error's text" in edit.text) == ("is_error" in more)
    assert arrive(a_situation(large, window=10_000, reserve=2_000), ArrivePolicy(cap_share=0.0)) == ()


def test_what_pictures_take_is_counted_in_and_leaves_some_room_for_the_text():
    pictures = (Media(kind="image", width=10, height=10),)
    messages = [*rounds(), call("e"), result("e", numbered(0, 2000), media=pictures)]
    text = count(numbered(0, 2000))

    def cut(media_tokens):
        parts = [[part_tokens(part) for part in message.parts] for message in messages]
        parts[-1] = [text + media_tokens]
        situation = a_situation(messages, window=10_000, reserve=2_000, parts_tokens=parts.__getitem__)
        (edit,) = arrive(situation, ArrivePolicy(cap_share=0.5))
        return edit

    assert cut(1_500).tokens_before == text + 1_500
    assert 3_500 < cut(1_500).tokens_after <= 4_000
    assert 9_800 < cut(9_000).tokens_after <= 10_000


def test_a_small_picture_with_a_small_text_stays():
    messages = [*rounds(), call("e"), result("e", "fine", media=(Media(kind="image"),))]
    situation = a_situation(messages, window=10_000, reserve=2_000, parts_tokens=lambda number: [1_000] * 3)

    assert arrive(situation, ArrivePolicy(cap_share=0.5)) == ()


def test_pictures_that_are_too_large_by_themselves_stay():
    messages = [*rounds(), call("e"), result("e", "fine", media=(Media(kind="image"),))]
    situation = a_situation(messages, window=10_000, reserve=2_000, parts_tokens=lambda number: [9_000] * 3)

    assert arrive(situation, ArrivePolicy(cap_share=0.5)) == ()


def test_errors_fixed_results_and_orphans_are_left_alone():
    text = words("same", 500)
    error = [*rounds(text), call("e"), result("e", text, is_error=True)]
    fixed = [*rounds(text), call("f"), result("f", text, fixed=True)]
    orphan = [*rounds(text), call("g"), result("nobody", text)]

    assert [arrive(a_situation(messages), BOLD) for messages in (error, fixed, orphan)] == [(), (), ()]


def test_control_codes_go():
    situation = a_situation(rounds("\x1b[32mfine\x1b[0m\n" * 60))

    (edit,) = arrive(situation, ArrivePolicy())

    assert (edit.kind, edit.text) == ("ansi", "fine\n" * 60)


def test_a_result_over_its_share_of_the_window_keeps_head_and_tail():
    situation = a_situation(rounds(numbered(0, 2000)), window=10_000, reserve=2_000)

    (edit,) = arrive(situation, ArrivePolicy(cap_share=0.5))

    assert edit.kind == "cap"
    assert edit.tokens_after <= 4_000
    assert edit.text.startswith("line number 0 ")
    assert edit.text.endswith("line number 1999 says something of its own")
    assert arrive(situation, ArrivePolicy(cap_share=0.0)) == ()


def test_routine_is_folded_only_when_asked_for_and_never_in_what_an_edit_must_match():
    log = "".join(f"2026-01-02 10:00:{n:02} waiting for the server\n" for n in range(50))
    ran = [user(), call("r", "bash", '{"command":"run"}'), result("r", log)]
    read = [user(), call("r", "read"), result("r", log)]

    assert arrive(a_situation(ran), ArrivePolicy()) == ()
    assert arrive(a_situation(ran), BOLD)[0].kind == "collapse"
    assert arrive(a_situation(read, tools=("read", "edit")), BOLD) == ()
    assert arrive(a_situation(read, tools=("read",)), BOLD)[0].kind == "collapse"


def test_what_would_save_next_to_nothing_stays_as_it_is():
    assert arrive(a_situation(rounds("\x1b[32mok\x1b[0m")), ArrivePolicy()) == ()


def test_each_edit_knows_at_which_call_it_was_decided():
    text = words("same", 500)
    situation = a_situation(rounds(text, text))

    (edit,) = arrive(situation, ArrivePolicy())

    assert edit.decided == 5
    assert places([edit], situation) == [(4, 0)]


def test_as_much_is_left_as_the_cache_takes():
    text = words("same", 500)
    situation = a_situation(rounds(text, text), prices=Prices(read=0.1, write=1.0, minimum=1000))
    roomy = a_situation(rounds(words("other", 600), text, text), prices=situation.prices)

    assert arrive(situation, ArrivePolicy()) == ()
    assert [edit.kind for edit in arrive(roomy, ArrivePolicy())] == ["repeat"]


def test_what_fills_the_window_is_cut_whatever_the_cache_takes():
    situation = a_situation(rounds(words("large", 5000)), window=4000, prices=Prices(read=0.1, write=1.0, minimum=4096))

    assert [edit.kind for edit in arrive(situation, ArrivePolicy())] == ["cap"]
