import json
from base64 import b64encode

import pytest

from proxy.conversation.model import Media, Opaque, Reasoning, Text, ToolCall, ToolResult
from proxy.conversation.pairing import pairs
from proxy.conversation.recall import Recall
from proxy.dialects.openai_chat.view import parse_message, view_body

PNG = b64encode(
    b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (540).to_bytes(4) + (360).to_bytes(4) + b"\x08\2\0\0\0" * 40
).decode()


def viewed(*messages, headers=None, **more):
    body = json.dumps({"model": "m", "messages": list(messages), **more}).encode()
    return view_body(headers or {}, body, Recall())


def parsed(**message):
    return parse_message(json.dumps(message).encode())


def test_a_request_is_read():
    view = viewed(
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": "and kind"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "a notice"},
        tools=[{"type": "function", "function": {"name": "read"}}, {"type": "web_search"}],
        max_tokens=5,
        n=3,
        prompt_cache_key="s1",
    )
    told = view.conversation

    assert (told.dialect, told.model, told.stream, told.max_output) == ("openai_chat", "m", False, 5)
    assert [message.parts for message in told.system] == [(Text(text="be brief"),), (Text(text="and kind"),)]
    assert [message.role for message in told.messages] == ["user", "system"]
    assert len(view.spans) == 2
    assert told.tools.names == ("read", "web_search")
    assert (told.session_label, view.choices, view.asks_usage) == ("s1", 3, True)


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({"stream": True}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": True, "stream_options": {"include_usage": False}}, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"stream": False}, True),
        ({"stream": None}, True),
    ],
)
def test_a_stream_carries_usage_only_where_it_was_asked_for(fields, asks):
    assert viewed({"role": "user", "content": "hi"}, **fields).asks_usage is asks


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 9, "max_tokens": 5}, 9),
        ({"max_tokens": None}, None),
        ({"max_tokens": 0}, None),
        ({"max_tokens": "5"}, None),
        ({"max_tokens": True}, None),
    ],
)
def test_the_limit_of_the_answer_is_the_requests_own(fields, limit):
    assert viewed({"role": "user", "content": "hi"}, **fields).conversation.max_output == limit


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ({"type": "text", "text": "hi"}, Text(text="hi")),
        ({"type": "refusal", "refusal": "no"}, Text(text="no")),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG, "detail": "low"}}, Media(kind="image", width=540, height=360, detail="low", size_bytes=len(PNG) * 3 // 4)),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, Media(kind="image", reference="https://example.org/a.png")),
        # Mistral.
        ({"type": "image_url", "image_url": "https://example.org/a.png"}, Media(kind="image", reference="https://example.org/a.png")),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, Media(kind="audio", size_bytes=3)),
        ({"type": "input_audio", "input_audio": "odd"}, Media(kind="audio")),
        ({"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}, Media(kind="video")),
        ({"type": "file", "file": {"file_id": "f1"}}, Media(kind="file", reference="f1")),
        ({"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, Reasoning(text="ab")),
        ({"type": "thinking", "thinking": "hm", "signature": "s"}, Reasoning(text="hm", signed=True)),
        ({"type": "made_up", "x": 1}, Opaque(kind="made_up", size_chars=24)),
        ("text", Opaque(kind="unknown", size_chars=6)),
        ({"type": "text", "text": None}, Opaque(kind="text", size_chars=27)),
    ],
)  # fmt: skip
def test_each_kind_of_content_is_read(item, part):
    assert parsed(role="user", content=[item]).parts == (part,)


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"role": "assistant", "content": None}, ()),
        ({"role": "assistant", "content": ""}, ()),
        ({"role": "assistant"}, ()),
        ({"role": "assistant", "content": "a", "refusal": "no"}, (Text(text="a"), Text(text="no"))),
        ({"role": "assistant", "content": "a", "refusal": None, "annotations": []}, (Text(text="a"),)),
        ({"role": "assistant", "content": None, "audio": {"id": "audio_1"}}, (Media(kind="audio", reference="audio_1"),)),
        # Calls: usual, custom, old, as an object, signed.
        ({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}]}, (ToolCall(call_id="c", name="f", arguments='{"a":1}'),)),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "text"}}]}, (ToolCall(call_id="c", name="f", arguments="text"),)),
        ({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]}, (ToolCall(call_id="c", name="f", arguments='{"a":1}'),)),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, (ToolCall(call_id="", name="f", arguments="{}"),)),
        ({"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "f", "arguments": ""}, "extra_content": {"google": {"thought_signature": "s"}}}]}, (ToolCall(call_id="", name="f", arguments="", signed=True),)),
        # Results: usual, as parts, old.
        ({"role": "tool", "tool_call_id": "c", "content": "x"}, (ToolResult(call_id="c", text="x"),)),
        ({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, (ToolResult(call_id="c", text="a\nb"),)),
        ({"role": "function", "name": "f", "content": "x"}, (ToolResult(call_id="", name="f", text="x"),)),
        ({"role": "tool", "tool_call_id": "c"}, (ToolResult(call_id="c", text="", fixed=True),)),
        ({"role": "tool", "tool_call_id": "c", "content": [{"type": "odd"}]}, (ToolResult(call_id="c", text="", fixed=True),)),
    ],
)  # fmt: skip
def test_each_form_of_a_message_is_read(message, parts):
    assert parsed(**message).parts == parts


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"reasoning_content": "hm"}, Reasoning(text="hm")),
        ({"reasoning": "hm"}, Reasoning(text="hm")),
        # The same in two fields counts once.
        ({"reasoning": "hm", "reasoning_content": "hm"}, Reasoning(text="hm")),
        ({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]}, Reasoning(text="hm", signed=True)),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "a"}, {"type": "reasoning.text", "text": "b"}]}, Reasoning(text="ab")),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "ENC"}]}, Reasoning(text="ENC", signed=True)),
        ({"reasoning_content": "", "reasoning": None, "reasoning_details": "odd"}, None),
    ],
)  # fmt: skip
def test_reasoning_is_read_from_whichever_field(fields, reasoning):
    expected = [reasoning] if reasoning else []

    assert list(parsed(role="assistant", content="a", **fields).parts) == [*expected, Text(text="a")]


def test_old_functions_find_their_results_by_name():
    view = viewed(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
        functions=[{"name": "f", "parameters": {}}],
    )

    assert view.conversation.tools.names == ("f",)
    assert [pair.call.name for pair in pairs(view.conversation.messages)] == ["f"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"messages":"x"}',
        b'{"messages":[1]}',
        b'{"messages":[{}],"messages":[]}',
        b'{"messages":[',
        b"\xff",
        b'{"messages":[{"tool_calls":[1]}]}',
    ],
)
def test_what_is_no_such_request_has_no_view(body):
    assert view_body({}, body, Recall()) is None


@pytest.mark.parametrize(
    ("model", "seen"), [("", "my gpt"), (None, "my gpt"), ("gpt-5", "gpt-5")], ids=["empty", "absent", "in the body"]
)
def test_a_deployment_in_the_path_stands_for_a_model_that_the_body_does_not_name(model, seen):
    body = json.dumps({"messages": [], **({} if model is None else {"model": model})}).encode()
    path = "/openai/deployments/my%20gpt/chat/completions"

    assert view_body({}, body, Recall(), path).conversation.model == seen


def test_messages_are_parsed_once_a_process():
    recall = Recall()
    body = json.dumps(
        {"messages": [{"role": "user", "content": "hi"}], "tools": [{"function": {"name": "f"}}]}
    ).encode()
    first, second = (view_body({}, bytes(bytearray(body)), recall).conversation for _ in range(2))

    assert first.messages[0] is second.messages[0]
    assert first.tools is second.tools


def test_a_history_that_begins_with_its_clients_own_summary_is_marked_there():
    texts = ["<state_snapshot>\n<goal/>", "he wrote <state_snapshot>"]
    found = viewed(*({"role": "user", "content": text} for text in texts)).conversation.messages

    assert [message.summary_marked for message in found] == [True, False]
