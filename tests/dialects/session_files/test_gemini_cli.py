from tests.dialects.session_files.files import of, told

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
