"""Session files as Gemini CLI writes them, and as `opencode export` does."""

import json

from proxy.conversation.model import ToolCall, ToolResult
from proxy.exchange.transcripts import conversations

HEAD = {"sessionId": "s-1", "projectHash": "abc", "startTime": "2026-01-01T00:00:00Z", "kind": "main"}


def asked(number, text):
    return {"id": f"u{number}", "timestamp": "t", "type": "user", "content": [{"text": text}]}


def answered(number, text, *calls):
    return {
        "id": f"g{number}", "timestamp": "t", "type": "gemini", "content": text, "model": "gemini-2.5-pro",
        "thoughts": [], "tokens": {"input": 9, "output": 2}, "toolCalls": list(calls),
    }  # fmt: skip


def a_call(name, result):
    response = {"functionResponse": {"id": name, "name": "read_file", "response": {"output": result}}}
    given = [response] if result is not None else None
    return {
        "id": name, "name": "read_file", "args": {"path": name}, "result": given, "status": "cancelled", "timestamp": "t"
    }  # fmt: skip


NOTE = {"id": "i1", "timestamp": "t", "type": "info", "content": "Update available"}
SAID = [
    asked(1, "fix it"),
    NOTE,
    answered(1, "I read", a_call("a.py", "x = 1"), a_call("b.py", None)),
    answered(2, "done"),
]


def of(*entries):
    return conversations(b"\n".join(json.dumps(entry).encode() for entry in entries))


def told(conversation):
    """Roles, and of calls and results what they are."""
    parts = [part for message in conversation.messages for part in message.parts]
    return (
        [message.role for message in conversation.messages],
        [part.name for part in parts if isinstance(part, ToolCall)],
        [part.text for part in parts if isinstance(part, ToolResult)],
    )


def test_a_gemini_cli_session_is_what_its_model_saw():
    (found,) = of({**HEAD, "messages": SAID})
    roles, calls, results = told(found)

    assert (found.dialect, found.model) == ("gemini", "gemini-2.5-pro")
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert calls == ["read_file", "read_file"]
    assert "x = 1" in results[0]
    assert "cancelled" in results[1]


def test_a_gemini_cli_session_of_lines_is_the_same():
    unfinished = answered(1, "I read", a_call("a.py", "not this"))

    assert told(of(HEAD, SAID[0], unfinished, *SAID[1:])[0]) == told(of({**HEAD, "messages": SAID})[0])


def test_what_a_gemini_cli_session_took_back_is_not_there():
    roles = told(of(HEAD, *SAID, asked(3, "no"), {"$rewindTo": "u3"}, asked(4, "so"))[0])[0]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]

    assert told(of(HEAD, *SAID, {"$rewindTo": "lost"}, asked(4, "so"))[0])[0] == ["user"]
    assert told(of(HEAD, *SAID, {"$set": {"messages": SAID[:1]}})[0])[0] == ["user"]
    assert of(HEAD, SAID[0], {"$rewindTo": "u1"}) == []


def a_message(role, *parts):
    return {
        "info": {"id": "m", "role": role, "sessionID": "ses_1", "modelID": "claude-sonnet-4-5"},
        "parts": list(parts),
    }


def words(text):
    return {"type": "text", "text": text}


def used(status, **state):
    return {
        "type": "tool",
        "tool": "read",
        "callID": "c1",
        "state": {"status": status, "input": {"filePath": "a"}, **state},
    }


def test_an_opencode_export_is_what_its_model_saw():
    messages = [
        a_message("user", words("fix it")),
        a_message("assistant", {"type": "step-start"}, words("I read"), used("completed", output="x = 1")),
        a_message("assistant", used("error", error="no such file")),
        a_message("assistant", words("done"), {"type": "tool", "tool": "odd"}),
        {"info": "odd"},
    ]
    (found,) = of({"info": {"id": "ses_1"}, "messages": messages})
    roles, calls, results = told(found)

    assert (found.dialect, found.model) == ("anthropic_messages", "claude-sonnet-4-5")
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert calls == ["read", "read"]
    assert results == ["x = 1", "no such file"]


def test_an_opencode_session_that_was_compacted_begins_anew():
    messages = [
        a_message("user", words("fix it")),
        a_message("assistant", words("done")),
        a_message("user", {"type": "compaction", "auto": True}),
        a_message("assistant", words("what was done")),
        a_message("user", words("more")),
    ]
    found = of({"info": {"id": "ses_1"}, "messages": messages})

    assert [told(one)[0] for one in found] == [["user", "assistant"], ["assistant", "user"]]
