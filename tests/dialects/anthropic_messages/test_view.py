import json
from base64 import b64encode

import pytest

from proxy.conversation.model import NO_TOOLS, Media, Opaque, Reasoning, Text, ToolCall, ToolResult
from proxy.conversation.pairing import pairs
from proxy.conversation.recall import Recall
from proxy.dialects.anthropic_messages.view import parse_message, view_body

PNG = b64encode(
    b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (540).to_bytes(4) + (360).to_bytes(4) + b"\x08\2\0\0\0" * 40
).decode()
MARK = {"cache_control": {"type": "ephemeral"}}


def viewed(*messages, path="/v1/messages", headers=None, **more):
    body = json.dumps({"model": "claude-x", "max_tokens": 100, "messages": list(messages), **more}).encode()
    return view_body(path, headers or {}, body, Recall())


def parsed(role="user", **message):
    return parse_message(json.dumps({"role": role, **message}).encode())


def part_of(block):
    (part,) = parsed(content=[block]).parts
    return part


def test_a_request_is_read():
    view = viewed(
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
        system=[{"type": "text", "text": "be brief", **MARK}, {"type": "text", "text": "and kind"}],
        tools=[{"name": "read", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}],
        stream=True,
        metadata={"user_id": '{"session_id":"s1"}'},
    )
    told = view.conversation

    assert (told.dialect, told.model, told.stream, told.max_output) == ("anthropic_messages", "claude-x", True, 100)
    assert [message.parts for message in told.system] == [(Text(text="be brief"), Text(text="and kind"))]
    assert told.tools.names == ("read", "web_search")
    assert [(message.role, message.parts) for message in told.messages] == [
        ("user", (Text(text="hi"),)),
        ("assistant", (Text(text="hello"),)),
    ]
    assert told.session_label == "s1"
    assert view.asks_usage
    assert view.choices == 1
    assert (told.server_history, told.server_edits, told.utility) == ("", False, False)


def test_system_text_may_be_a_string_or_missing():
    hello = {"role": "user", "content": "hi"}

    assert [message.parts for message in viewed(hello, system="be brief").conversation.system] == [
        (Text(text="be brief"),)
    ]
    assert viewed(hello).conversation.system == viewed(hello, system="").conversation.system == ()
    one, other = (viewed(hello, system=text).conversation.system[0].digest for text in ("a", "b"))
    marked = viewed(hello, system=[{"type": "text", "text": "a", **MARK}]).conversation.system[0].digest
    assert one != other
    assert one == marked


def test_a_count_has_neither_a_limit_nor_a_stream():
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    told = view_body("/v1/messages/count_tokens", {}, body, Recall()).conversation

    assert (told.max_output, told.stream, len(told.messages)) == (None, False, 1)


def test_vertex_names_the_model_in_the_path():
    path = "/v1/projects/p/locations/l/publishers/anthropic/models/claude-3-7-sonnet@20250219:streamRawPredict"
    body = b'{"anthropic_version":"vertex-2023-10-16","messages":[],"max_tokens":9}'

    assert view_body(path, {}, body, Recall()).conversation.model == "claude-3-7-sonnet@20250219"
    assert view_body("/v1/messages", {}, body, Recall()).conversation.model == ""


def test_a_block_is_one_part_whatever_it_is():
    """So that a part's index is its block's."""
    blocks = [
        {"type": "text", "text": ""},
        {"type": "odd"},
        7,
        None,
        "x",
        {"type": "tool_result"},
        {"type": "thinking"},
        {},
    ]

    assert len(parsed(content=blocks).parts) == len(blocks)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "hi", **MARK, "citations": []}, Text(text="hi")),
        ({"type": "thinking", "thinking": "hm", "signature": "c2ln"}, Reasoning(text="hm", signed=True)),
        ({"type": "thinking", "thinking": "", "signature": "c2ln"}, Reasoning(text="", signed=True)),
        ({"type": "thinking", "thinking": "hm"}, Reasoning(text="hm")),
        ({"type": "redacted_thinking", "data": "abc"}, Reasoning(text="", signed=True)),
        ({"type": "tool_use", "id": "t1", "name": "read", "input": {"a": 1}}, ToolCall(call_id="t1", name="read", arguments='{"a":1}')),
        ({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, ToolCall(call_id="s1", name="web_search", arguments="{}")),
        ({"type": "mcp_tool_use", "id": "m1", "name": "echo", "input": {}, "server_name": "x"}, ToolCall(call_id="m1", name="echo", arguments="{}")),
        # Media and documents in all their forms.
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, Media(kind="image", width=540, height=360, size_bytes=len(PNG) * 3 // 4)),
        ({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}, Media(kind="image", reference="https://example.org/a.png")),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, Media(kind="image", reference="file_1")),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}, Media(kind="file", size_bytes=3)),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}, Text(text="words")),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}, Text(text="a\nb")),
        ({"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}, Media(kind="file", reference="https://example.org/a.pdf")),
        ({"type": "search_result", "source": "https://example.org", "title": "t", "content": [{"type": "text", "text": "found"}]}, Text(text="found")),
        ({"type": "image"}, Media(kind="image")),
        # Results.
        ({"type": "tool_result", "tool_use_id": "t1", "content": "out"}, ToolResult(call_id="t1", text="out")),
        ({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "is_error": True}, ToolResult(call_id="t1", text="a\nb", is_error=True)),
        ({"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": False}, ToolResult(call_id="t1", text="")),
        ({"type": "tool_result", "tool_use_id": "t1"}, ToolResult(call_id="t1", text="", fixed=True)),
        ({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "tool_reference", "tool_name": "x"}]}, ToolResult(call_id="t1", text="", fixed=True)),
    ],
)  # fmt: skip
def test_each_kind_of_block_is_read(block, part):
    assert part_of(block) == part


def test_a_result_may_hold_pictures():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    part = part_of({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}, picture]})

    assert part.text == "a"
    assert [(media.width, media.height) for media in part.media] == [(540, 360)]
    assert not part.fixed


@pytest.mark.parametrize(
    ("block", "name", "text"),
    [
        ({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "ENC" * 999}]}, "web_search", "u\nt"),
        ({"type": "web_search_tool_result", "tool_use_id": "s", "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}, "web_search", "unavailable"),
        ({"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {"type": "x", "stdout": "4\n", "stderr": "", "return_code": 0}}, "bash_code_execution", "4\n\n"),
        ({"type": "mcp_tool_result", "tool_use_id": "s", "is_error": False, "content": [{"type": "text", "text": "hi"}]}, "mcp", "hi"),
    ],
)  # fmt: skip
def test_what_the_providers_own_tools_gave_back_is_fixed(block, name, text):
    part = part_of(block)

    assert (part.call_id, part.name, part.text, part.fixed) == ("s", name, text, True)


@pytest.mark.parametrize("kind", ["document", "image"])
def test_a_file_that_a_server_tool_fetched_is_a_medium_and_no_text(kind):
    held = {"type": kind, "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA" * 999}}
    fetched = {"type": "web_fetch_result", "url": "u", "content": {**held, "title": "t"}}

    part = part_of({"type": "web_fetch_tool_result", "tool_use_id": "s", "content": fetched})
    by_mcp = part_of({"type": "mcp_tool_result", "tool_use_id": "s", "content": [{"type": "text", "text": "a"}, held]})

    assert (part.text, by_mcp.text) == ("u\nt", "a")
    for result in (part, by_mcp):
        assert [medium.size_bytes for medium in result.media] == [2997]
        assert result.fixed


def test_the_providers_own_calls_find_their_results_in_the_same_message():
    message = parsed(
        "assistant",
        content=[
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ],
    )

    assert [(pair.tool, pair.call_message) for pair in pairs([message])] == [("web_search", 0)]


def test_what_is_unknown_is_carried_unread_and_weighs_a_bounded_size():
    block = {"type": "future_block", "v": [1, {"k": None}]}

    assert part_of(block) == Opaque(kind="future_block", size_chars=len(json.dumps(block, separators=(",", ":"))))


def test_a_notice_of_the_system_keeps_its_place_in_the_history():
    told = viewed(
        {"role": "user", "content": "go"}, {"role": "system", "content": "a changed"}, {"role": "user", "content": "on"}
    )

    assert [message.role for message in told.conversation.messages] == ["user", "system", "user"]
    assert told.conversation.system == ()


@pytest.mark.parametrize(
    ("texts", "role"),
    [
        ([], "tool"),
        (["<system-reminder>todo list is empty</system-reminder>"], "tool"),
        (["no, stop"], "user"),
        (["<system-reminder>x</system-reminder>", "no, stop"], "user"),
    ],
)
def test_results_alone_are_not_the_users_word(texts, role):
    results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in "ab"]
    message = parsed(content=[*results, *({"type": "text", "text": text} for text in texts)])

    assert message.role == role


def test_a_reminder_without_results_is_the_users_message():
    assert parsed(content=[{"type": "text", "text": "<system-reminder>CLAUDE.md</system-reminder>"}]).role == "user"


def test_marks_that_move_do_not_change_a_message():
    plain = parsed(content="hi")
    marked = parsed(content=[{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}])

    assert plain.digest == marked.digest
    assert plain.digest != parsed("assistant", content="hi").digest


SYSTEM, TOOL = {"type": "text", "text": "be brief"}, {"name": "read", "input_schema": {}}


@pytest.mark.parametrize(
    ("head", "marked"),
    [
        ({"system": [SYSTEM | MARK]}, True),
        ({"system": [SYSTEM], "tools": [TOOL | MARK]}, False),
        ({"tools": [TOOL | MARK]}, True),
        ({"system": "be brief"}, False),
        (MARK, False),
        ({}, False),
    ],
)
def test_a_breakpoint_in_front_of_the_history_is_seen(head, marked):
    assert viewed({"role": "user", "content": [{"type": "text", "text": "a"} | MARK]}, **head).head_marked is marked


@pytest.mark.parametrize(
    ("edits", "asked"),
    [
        # Claude Code asks for this on every call; it takes no result out.
        ([{"type": "clear_thinking_20251015", "keep": "all"}], False),
        ([{"type": "clear_tool_uses_20250919"}], True),
        ([{"type": "compact_20260112", "instructions": "x" * 10_000}], True),
        ([{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}], True),
        ([], False),
        ("odd", False),
    ],
)
def test_a_request_says_when_the_provider_may_edit_its_history(edits, asked):
    view = viewed({"role": "user", "content": "hi"}, context_management={"edits": edits})

    assert view.conversation.server_edits is asked


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "user",
            "content": "This session is being continued from a previous conversation that ran out of context.",
        },
        {
            "role": "assistant",
            "content": [{"type": "compaction", "content": "what was"}, {"type": "text", "text": "ok"}],
        },
    ],
)
def test_a_summary_by_client_or_provider_is_marked(message):
    assert parse_message(json.dumps(message).encode()).summary_marked
    assert not parsed(content="hi").summary_marked


def test_a_compaction_by_claude_code_is_a_side_call():
    view = viewed(
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "x"},
                {"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."},
            ],
        },
        tools=[{"name": "read", "input_schema": {}}],
    )

    assert view.conversation.utility


def test_claude_codes_call_for_a_title_is_a_side_call_without_tools():
    """As it was seen to go out: three system blocks, and an empty list of tools."""
    view = viewed(
        {
            "role": "user",
            "content": [{"type": "text", "text": "<session>\nfix it\n</session>\n\nWrite the title in …"}],
        },
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=sdk-py;"},
            {"type": "text", "text": "You are a Claude agent, built on Anthropic's Claude Agent SDK.", **MARK},
            {"type": "text", "text": "You are naming a coding session so the user can pick it out.", **MARK},
        ],
        tools=[],
        thinking={"type": "disabled"},
    )
    assert view.conversation.utility
    assert view.conversation.tools == NO_TOOLS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model":"m"}',
        b'{"messages":"hi"}',
        b'{"messages":{}}',
        b'{"messages":[1]}',
        b'{"messages":["x"]}',
        b'{"messages":[],"messages":[]}',
        b'{"messages":[]',
        b'{"messages":[],"tools":{"a":}}',
    ],
)
def test_what_is_no_such_request_has_no_view(body):
    assert view_body("/v1/messages", {}, body, Recall()) is None


BY_CODE = {"type": "code_execution_20260120", "tool_id": "srv"}


def calling(call_id, caller=None):
    return {"type": "tool_use", "id": call_id, "name": "query", "input": {}, "caller": caller}


def giving(call_id, content="x" * 3000):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def by_code_and_not():
    """Code that calls twice, beside calls of the model's own; every id has its own results."""
    run = {"type": "server_tool_use", "id": "srv", "name": "code_execution", "input": {"code": "…"}, "caller": None}
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [run, calling("a", BY_CODE), calling("b", {"type": "direct"}), calling("c")]},
        {"role": "user", "content": [giving("a", [{"type": "text", "text": "1"}]), giving("b"), giving("c")]},
        {"role": "assistant", "content": [calling("d", BY_CODE)]},
        {"role": "assistant", "content": [calling("e", {"type": "code_execution_20250825"})]},
        {"role": "user", "content": [giving("d")]},
        {"role": "user", "content": [giving("e")]},
        {"role": "assistant", "content": [calling("f")]},
        {"role": "user", "content": [giving("f")]},
    ]


def test_what_only_code_reads_is_not_in_what_the_model_sees():
    """Anthropic, "Programmatic tool calling": such results do not count toward usage, and never reach the model."""
    messages = viewed(*by_code_and_not()).conversation.messages
    results = {pair.result.call_id: pair.result for pair in pairs(messages)}
    emptied = [call_id for call_id, result in results.items() if result.to_code]

    assert emptied == ["a", "d", "e"]
    assert {(results[name].text, results[name].media, results[name].fixed) for name in emptied} == {("", (), True)}
    assert {results[name].text for name in "bcf"} == {"x" * 3000}
    assert [pair.call.caller for pair in pairs(messages)] == ["srv", "", "", "srv", "code_execution_20250825", ""]
    assert [message.role for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
    ]


def test_the_same_words_to_the_model_are_another_message():
    """Weights are known by a message's digest."""
    seen, unseen = (
        viewed(
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [calling("a", by)]},
            {"role": "user", "content": [giving("a")]},
        )
        for by in (None, BY_CODE)
    )

    assert seen.conversation.messages[2].digest != unseen.conversation.messages[2].digest


def test_what_code_reads_is_left_out_alike_however_the_history_grew():
    history = by_code_and_not()
    for first in range(1, len(history)):
        recall = Recall()
        for end in (first, *range(first + 1, len(history) + 1)):
            body = json.dumps({"messages": history[:end]}).encode()
            known = view_body("/v1/messages", {}, body, recall).conversation
            assert known == view_body("/v1/messages", {}, body, Recall()).conversation


def test_a_search_that_code_made_gives_its_results_to_that_code():
    page = {"type": "web_fetch_result", "content": {"type": "document", "source": {"type": "text", "data": "long"}}}
    fetched = {"type": "web_fetch_tool_result", "tool_use_id": "f", "content": page}

    assert (part_of(fetched).text, part_of(fetched).to_code) == ("long", False)
    assert (part_of({**fetched, "caller": BY_CODE}).text, part_of({**fetched, "caller": BY_CODE}).to_code) == ("", True)
    assert part_of({**fetched, "caller": {"type": "direct"}}) == part_of(fetched)


def test_messages_are_parsed_once_a_process():
    recall = Recall()
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "tools": [], "system": "s"}).encode()
    first, second = (view_body("/v1/messages", {}, bytes(bytearray(body)), recall) for _ in range(2))

    assert first.conversation.messages[0] is second.conversation.messages[0]
    assert first.conversation.tools is second.conversation.tools
    assert first.conversation.system is second.conversation.system
