"""The structure rules of Messages and their texts."""

import pytest

from proxy.demo.provider.asked import Refused
from proxy.demo.provider.messages_rules import checked, prompt_of

MARK = {"cache_control": {"type": "ephemeral"}}


def said(role, *blocks):
    return {"role": role, "content": list(blocks)}


def text(words="one two three", **extra):
    return {"type": "text", "text": words, **extra}


def use(call_id="t1", given=None):
    return {"type": "tool_use", "id": call_id, "name": "look", "input": given or {}}


def result(call_id="t1", content="found it"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def thinking(words="hm", signature="s", **extra):
    return {"type": "thinking", "thinking": words, "signature": signature, **extra}


def refusal(messages, *, counting=False, **fields):
    with pytest.raises(Refused) as refused:
        checked({"model": "m", "max_tokens": 9, "messages": messages, **fields}, counting=counting)
    assert refused.value.status == 400
    return refused.value.body["error"]["message"]


BROKEN = [
    # pairs
    (
        [said("user", text()), said("assistant", use()), said("user", text())],
        "without `tool_result` blocks immediately",
    ),
    ([said("user", text()), said("assistant", use())], "without `tool_result` blocks immediately after: t1"),
    ([said("user", result("t9"))], "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t9"),
    (
        [said("user", text()), said("assistant", use()), said("user", text(), result())],
        "messages.1: `tool_use` ids were found without `tool_result`",
    ),
    (
        [said("user", text()), said("assistant", use()), said("user", result(), result())],
        "each tool_use must have a single result",
    ),
    (
        [said("user", text()), said("assistant", use(), use()), said("user", result())],
        "`tool_use` ids must be unique",
    ),
    # shapes
    ([], "at least one message is required"),
    ([said("user", text(""))], "text content blocks must be non-empty"),
    ([said("user"), said("assistant", text())], "messages.0: all messages must have non-empty content"),
    ([said("assistant", text())], 'first message must use the "user" role'),
    ([said("system", text())], 'Unexpected role "system"'),
    ([said("user", text("", **MARK))], "cache_control cannot be set for empty text blocks"),
    ([said("user", *[text(**MARK)] * 5)], "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    ([said("user", text()), said("assistant", text("end "))], "cannot end with trailing whitespace"),
    (
        [said("user", text()), said("assistant", thinking(signature="")), said("user", text())],
        "signature: Field required",
    ),
]


@pytest.mark.parametrize(("messages", "expected"), BROKEN)
def test_broken_histories_are_refused(messages, expected):
    assert expected in refusal(messages)


def test_a_history_that_keeps_all_rules_is_taken_as_it_is():
    history = [said("user", text()), said("assistant", use()), said("user", result(), text())]

    assert checked({"model": "m", "max_tokens": 9, "messages": history}, counting=False) is history


def test_only_an_answer_needs_its_limit():
    body = {"model": "m", "messages": [said("user", text())]}
    with pytest.raises(Refused) as refused:
        checked(body, counting=False)

    assert refused.value.body["error"]["message"] == "max_tokens: Field required"
    assert checked(body, counting=True)


def test_a_mark_inside_a_calls_input_is_the_models_own_text():
    history = [said("user", text()), said("assistant", use(given={"cache_control": {"a": 1}})), said("user", result())]
    body = {"model": "m", "max_tokens": 9, "messages": history, "system": [text(**MARK)] * 4}

    assert checked(body, counting=False)


def test_the_running_loop_must_think_when_thinking_is_enabled():
    enabled = {"type": "enabled", "budget_tokens": 1024}
    history = [said("user", text()), said("assistant", use()), said("user", result())]

    assert "Expected `thinking` or `redacted_thinking`, but found `tool_use`" in refusal(history, thinking=enabled)
    done = [*history, said("assistant", text()), said("user", text())]
    assert checked({"model": "m", "max_tokens": 9, "messages": done, "thinking": enabled}, counting=False)


def test_what_goes_between_code_and_the_client_stands_in_no_prompt():
    run = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "…"}}
    by_code = {**use("t1"), "caller": {"type": "code_execution_20260120", "tool_id": "s"}}
    own = {**use("t2"), "caller": {"type": "direct"}}
    messages = [
        said("user", text()),
        said("assistant", run, by_code, own),
        said("user", result("t1"), result("t2")),
        said("assistant", {**by_code, "id": "t3"}),
        said("user", result("t3")),
    ]

    assert prompt_of(messages) == [messages[0], said("assistant", run, own), said("user", result("t2"))]
    assert prompt_of(messages[:1]) == messages[:1]
