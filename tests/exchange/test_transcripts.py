"""Transcripts of many tools, read as requests."""

import json

from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.exchange.transcripts import transcripts

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def lines(*values):
    return b"\n".join(json.dumps(value).encode() for value in values)


def seen(transcript):
    """The roles of the conversation that the transcript's dialect views in it."""
    view = dialect_for(transcript.path).view(transcript.path, {}, transcript.body, Recall())
    return [message.role for message in view.conversation.messages]


def test_a_request_body_is_read_by_its_own_dialect():
    for body, path in (
        ({"model": "m", "messages": CHAT}, "/v1/chat/completions"),
        ({"model": "m", "system": "s", "messages": CHAT}, "/v1/messages"),
        ({"model": "m", "input": [{"role": "user", "content": "hi"}]}, "/v1/responses"),
        ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, "/v1beta/models/model:generateContent"),
    ):
        (found,) = transcripts(json.dumps(body).encode())

        assert found.path == path
        assert seen(found)[0] == "user"


def test_tool_blocks_tell_the_anthropic_form():
    block = {"type": "tool_use", "id": "a", "name": "read", "input": {}}

    (found,) = transcripts(json.dumps({"messages": [*CHAT, {"role": "assistant", "content": [block]}]}).encode())

    assert found.path == "/v1/messages"


def test_a_list_and_lines_of_messages_are_one_conversation():
    assert seen(transcripts(json.dumps(CHAT).encode())[0]) == ["user", "assistant"]
    assert seen(transcripts(lines(*CHAT))[0]) == ["user", "assistant"]


def test_of_many_logged_requests_the_longest_counts():
    log = lines(
        {"request": {"body": {"messages": CHAT[:1]}}}, {"request": {"messages": CHAT}}, {"body": {"messages": []}}
    )

    (found,) = transcripts(log)

    assert seen(found) == ["user", "assistant"]


def test_blocks_of_one_claude_code_answer_are_joined_and_side_chains_left_out():
    def said(kind, content, **more):
        return {"type": kind, "message": {"role": kind, "content": content, **more.pop("message", {})}, **more}

    session = lines(
        {"type": "summary", "summary": "x"},
        said("user", "do it"),
        said("assistant", [{"type": "text", "text": "reading"}], message={"id": "m1", "model": "claude-x"}),
        said("user", "side", isSidechain=True),
        said("assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}], message={"id": "m1"}),
        said("user", [{"type": "tool_result", "tool_use_id": "t", "content": "text"}]),
        {"type": "system", "subtype": "compact_boundary"},
        said("user", "this goes on", isCompactSummary=False),
    )

    first, second = transcripts(session)

    assert (first.model, first.path) == ("claude-x", "/v1/messages")
    assert seen(first) == ["user", "assistant", "tool"]
    assert seen(second) == ["user"]


def test_codex_sessions_are_read_old_and_new():
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "text"},
    ]
    new = lines(
        {"type": "session_meta", "payload": {"id": "x"}},
        {"type": "turn_context", "payload": {"model": "gpt-x"}},
        *({"type": "response_item", "payload": item} for item in items),
        {"type": "compacted", "payload": {"message": "short"}},
        {"type": "response_item", "payload": items[0]},
    )

    first, second = transcripts(new)
    (old,) = transcripts(lines({"id": "x", "instructions": None}, *items))

    assert (first.model, first.path) == ("gpt-x", "/v1/responses")
    assert seen(first) == seen(old) == ["user", "assistant", "tool"]
    assert seen(second) == ["user"]


def test_what_is_no_transcript_gives_nothing():
    assert transcripts(b"") == []
    assert transcripts(b"plain text\nof a log") == []
    assert transcripts(b'{"a": 1}\n[1, 2]\n"x"') == []
