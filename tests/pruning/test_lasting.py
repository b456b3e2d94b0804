from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.fingerprint import prefix_keys, seed_key
from proxy.conversation.model import Text
from proxy.pruning.lasting import Lasting
from tests.pruning.builders import a_message, answered, call, result, rounds, user


def names(messages, account=None):
    keys = tuple(prefix_keys(seed_key("test", "someone"), messages))
    return (account or Lasting()).names(tuple(messages), keys)


def test_they_are_those_of_words_and_calls_and_none_of_a_result():
    messages = [user("see a_file.py"), call("1", arguments='{"path":"b_dir/c.py"}'), result("1", "an_idea")]

    assert names([*messages, a_message("assistant", Text(text="fooBar did it"))]) == {
        "a_file.py",
        "b_dir/c.py",
        "fooBar",
    }


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=8))
def test_an_account_says_what_a_look_at_everything_says_also_where_conversations_part(asked):
    account = Lasting()
    for turns, branch in asked:
        texts = [f"text_{number}" for number in range(turns)]
        messages = answered([*rounds(*texts), *([user(f"branch_{branch}")] if branch else [])])

        assert names(messages, account) == names(messages)


def test_what_was_given_out_stays_true_where_another_conversation_goes_on():
    account = Lasting()
    given_out = names([user("an_idea"), user("b_idea")], account)
    names([user("an_idea"), user("c_idea")], account)

    assert given_out == {"an_idea", "b_idea"}
