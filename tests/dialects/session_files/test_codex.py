from tests.dialects.session_files.files import of, roles


def line(kind, /, **payload):
    return {"timestamp": "2025-12-08T00:38:00.000Z", "type": kind, "payload": payload}


def said(role, text):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CALL = {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "valve.rs"}


def test_a_codex_session_is_what_its_model_saw():
    before, after = of(
        line(
            "session_meta", id="x", cwd="/home/me", cli_version="0.98.0", base_instructions={"text": "You are Codex."}
        ),
        line("response_item", **said("developer", "<permissions instructions>")),
        line("response_item", **said("user", "fix the valve")),
        line("event_msg", type="user_message", message="fix the valve", kind="plain"),
        line("turn_context", cwd="/home/me", model="gpt-5-codex", approval_policy="never", summary="auto"),
        line("response_item", type="reasoning", summary=[], content=None, encrypted_content="gAAAA"),
        line("response_item", **CALL),
        line("event_msg", type="token_count", info=None, rate_limits=None),
        line("response_item", **OUTPUT),
        line("response_item", type="ghost_snapshot", ghost_commit={"id": "c0ffee", "parent": None}),
        line("response_item", **said("assistant", "done")),
        line("compacted", message="short", replacement_history=[said("user", "fix the valve"), said("user", "short")]),
        line("response_item", **said("assistant", "going on")),
    )

    assert (before.dialect, before.model) == ("openai_responses", "gpt-5-codex")
    assert next(part.text for message in before.system for part in message.parts) == "You are Codex."
    assert roles(before)[-5:] == ["user", "assistant", "assistant", "tool", "assistant"]
    assert roles(after) == ["user", "user", "assistant"]


def test_a_codex_session_without_the_new_history_goes_on_from_the_summary():
    _, after = of(
        line("response_item", **said("user", "fix the valve")),
        line("compacted", message="the valve was fixed"),
        line("response_item", **said("assistant", "going on")),
    )

    assert roles(after) == ["user", "assistant"]


def test_an_old_codex_session_holds_bare_items():
    (found,) = of(
        {"id": "x", "timestamp": "2025-07-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        said("user", "hi"),
        CALL,
        OUTPUT,
    )

    assert roles(found) == ["user", "assistant", "tool"]
