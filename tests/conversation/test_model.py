import pytest

from proxy.conversation.model import NO_TOOLS, Message, Text, ToolResult, after_last_assistant, last_words, says


def told(roles):
    return tuple(Message(role=role, parts=(Text(text="x"),), digest=b"") for role in roles)


@pytest.mark.parametrize(
    ("roles", "unseen"),
    [
        ((), 0),
        (("user",), 0),
        (("user", "assistant"), 2),
        (("user", "assistant", "tool", "tool"), 2),
        (("user", "assistant", "tool", "assistant", "user", "system"), 4),
        # A history that begins with nobody's answer: everything is new.
        (("system", "user", "user"), 0),
    ],
)
def test_what_stands_behind_the_last_answer_has_been_seen_by_no_model(roles, unseen):
    assert after_last_assistant(told(roles)) == unseen


def test_a_message_is_shared_and_so_cannot_be_changed():
    (message,) = told(("user",))

    with pytest.raises(AttributeError, match="immutable"):
        message.role = "assistant"
    assert hash(message) == hash(told(("user",))[0])


def test_no_tools_have_no_names_and_cost_nothing():
    assert (NO_TOOLS.names, NO_TOOLS.text) == ((), "")


def test_the_open_turn_begins_where_a_user_last_says_something():
    only_a_result = Message(role="user", parts=(ToolResult(call_id="c", text="x"),), digest=b"")

    assert last_words((*told(("user", "assistant", "user", "assistant")), only_a_result)) == 2
    assert last_words((only_a_result, *told(("assistant",)))) == -1
    assert [says(message) for message in (*told(("user", "assistant")), only_a_result)] == [True, False, False]
