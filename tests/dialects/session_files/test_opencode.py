from tests.dialects.session_files.files import of, told


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
