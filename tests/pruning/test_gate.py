"""Which models bind reasoning to everything before it."""

import pytest

from proxy.conversation.model import Reasoning, Text, ToolCall
from proxy.pruning.gate import bound_until, gate
from tests.pruning.builders import a_message, result, user, words


def thinking(call_id, *, signed=True):
    return a_message(
        "assistant", Reasoning(text="hm", signed=signed), ToolCall(call_id=call_id, name="read", arguments="{}")
    )


OPEN_TURN = (user(), thinking("a"), result("a", words("a", 9)), thinking("b"), result("b", words("b", 9)))


@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        # The provider refuses, and has an option to drop the blocks instead.
        ("claude-opus-5-5", "needs_drop_option"),
        ("anthropic/claude-sonnet-5.5", "needs_drop_option"),
        ("us.anthropic.claude-haiku-5-5-20261001-v1:0", "needs_drop_option"),
        ("claude-fable-5-1", "needs_drop_option"),
        ("claude-opus-6", "needs_drop_option"),
        # The provider drops without a word.
        ("gpt-6.2", "forbid"),
        ("openai/gpt-7-mini", "forbid"),
        # Only the open turn is checked, and this one is open.
        ("claude-sonnet-4-6", "forbid"),
        ("claude-3-7-sonnet-20250219", "forbid"),
        # Nothing is checked.
        ("gpt-6.1", "allow"),
        ("gpt-4o", "allow"),
        ("gpt-4-1106-preview", "allow"),
        ("gpt-35-turbo", "allow"),
        ("gemini-3-pro", "allow"),
        ("m-test", "allow"),
        ("", "allow"),
    ],
)
def test_a_change_before_signed_reasoning_is_judged_by_the_model(model, verdict):
    assert gate(model, OPEN_TURN, 2) == verdict


def test_what_stands_behind_the_last_signed_block_may_change():
    assert gate("claude-opus-5-5", OPEN_TURN, 4) == "allow"
    assert bound_until("claude-opus-5-5", OPEN_TURN) == 4


def test_older_claude_models_leave_closed_turns_alone():
    closed = (
        *OPEN_TURN,
        a_message("assistant", Text(text="done")),
        user("next"),
        a_message("assistant", Text(text="ok")),
    )

    assert gate("claude-sonnet-4-5", closed, 2) == "allow"
    assert gate("claude-sonnet-5-5", closed, 2) == "needs_drop_option"


def test_unsigned_reasoning_binds_nothing():
    messages = (user(), thinking("a", signed=False), result("a", "x"))

    assert gate("claude-opus-5-5", messages, 0) == "allow"


def test_a_model_that_was_seen_to_bind_reasoning_needs_the_option_whatever_its_name_says():
    signed = a_message("assistant", Reasoning(text="", signed=True))
    messages = [user(), signed, user()]

    assert gate("of-tomorrow", messages, 0) == "allow"
    assert gate("of-tomorrow", messages, 0, binds=True) == "needs_drop_option"
    assert gate("of-tomorrow", messages, 2, binds=True) == "allow"
