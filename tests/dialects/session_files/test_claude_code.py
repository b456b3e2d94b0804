from proxy.conversation.model import ToolCall, ToolResult
from tests.dialects.session_files.files import of, roles

HEAD = {
    "parentUuid": None, "isSidechain": False, "userType": "external", "cwd": "/home/me/valve", "version": "2.1.47",
    "sessionId": "7195cfed-d73e-458f-9a6c-6a0e85c59b83", "gitBranch": "main", "timestamp": "2026-02-19T02:08:35.084Z",
}  # fmt: skip
USAGE = {"input_tokens": 1, "cache_creation_input_tokens": 266, "cache_read_input_tokens": 15213, "output_tokens": 2}


def asked(content, **more):
    return {**HEAD, "type": "user", "uuid": "u", "message": {"role": "user", "content": content}, **more}


def answered(answer_id, *blocks, model="claude-sonnet-4-5", **more):
    message = {
        "id": answer_id, "type": "message", "role": "assistant", "model": model, "content": list(blocks),
        "stop_reason": None, "usage": USAGE,
    }  # fmt: skip
    return {**HEAD, "type": "assistant", "uuid": "a", "requestId": "req_1", "message": message, **more}


def use(call_id, **given):
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": given}


def gave(call_id, content="text"):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return asked([block], toolUseResult={"type": "text", "file": {"content": content}})


def test_a_claude_code_session_is_what_its_model_saw():
    (found,) = of(
        {"type": "summary", "summary": "Valve work", "leafUuid": "x"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}},
        asked("fix the valve"),
        answered("msg_1", {"type": "thinking", "thinking": "", "signature": "sig"}),
        answered("msg_1", {"type": "text", "text": "I read it."}),
        answered("msg_1", use("toolu_1", file_path="valve.rs")),
        {**HEAD, "type": "progress", "data": {"type": "hook_progress"}, "toolUseID": "toolu_1"},
        gave("toolu_1"),
        {**HEAD, "type": "system", "subtype": "turn_duration", "durationMs": 12},
        answered("err", {"type": "text", "text": "API Error: 529"}, model="<synthetic>", isApiErrorMessage=True),
        answered("msg_2", {"type": "text", "text": "Done."}),
        {"type": "queue-operation", "operation": "enqueue"},
        {"type": "last-prompt", "prompt": "fix the valve"},
    )

    assert (found.dialect, found.model) == ("anthropic_messages", "claude-sonnet-4-5")
    assert roles(found) == ["user", "assistant", "tool", "assistant"]
    assert sum(isinstance(part, ToolCall) for part in found.messages[1].parts) == 1


def test_calls_of_one_answer_stay_together_though_results_stand_between_their_lines():
    (found,) = of(
        asked("read both"),
        answered("msg_1", use("toolu_1")),
        gave("toolu_1", "one"),
        answered("msg_1", use("toolu_2")),
        gave("toolu_2", "two"),
        answered("msg_2", {"type": "text", "text": "Read."}),
    )
    calls, *results = found.messages[1:-1]

    assert [part.call_id for part in calls.parts if isinstance(part, ToolCall)] == ["toolu_1", "toolu_2"]
    assert [part.call_id for result in results for part in result.parts if isinstance(part, ToolResult)] == [
        "toolu_1",
        "toolu_2",
    ]


def test_a_session_that_was_compacted_begins_anew():
    first, second = of(
        asked("do it"),
        answered("msg_1", {"type": "text", "text": "done"}),
        {**HEAD, "type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}},
        asked("This session is being continued from a previous conversation.", isCompactSummary=True),
        answered("msg_2", {"type": "text", "text": "going on"}),
    )

    assert roles(first) == ["user", "assistant"]
    assert roles(second) == ["user", "assistant"]
    assert second.model == "claude-sonnet-4-5"


def side(entry, agent):
    return {**entry, "isSidechain": True, "agentId": agent}


def test_each_sub_agent_is_a_conversation_of_its_own():
    session = [asked("do it"), answered("msg_1", {"type": "text", "text": "done"})]
    alone = [side(asked("look around"), "a241764"), side(answered("msg_2", use("toolu_9")), "a241764")]
    both = [*session[:1], *alone, side(asked("look there"), "b0c1"), *session[1:]]

    assert list(map(roles, of(*alone))) == [["user", "assistant"]]
    assert list(map(roles, of(*both))) == [["user", "assistant"], ["user", "assistant"], ["user"]]


def test_old_side_chains_that_nothing_tells_apart_are_left_out_beside_the_session():
    old = {**asked("look around"), "isSidechain": True}

    assert list(map(roles, of(asked("do it"), old))) == [["user"]]
    assert list(map(roles, of(old))) == [["user"]]
