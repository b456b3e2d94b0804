import json

import pytest

from proxy.conversation.recall import Recall
from proxy.dialects.openai_chat.rewrite import ask_usage, replace_result, strip_reasoning
from proxy.dialects.openai_chat.view import view_body
from proxy.wire.body import splice

MARKED = {"type": "text", "text": "y", "cache_control": {"type": "ephemeral"}}


def test_a_string_stays_a_string_and_every_other_byte_stays():
    message = b'{ "role":"tool" ,"content" : "old \\u00e9" , "tool_call_id":"c", "x" : 1.0 }'

    assert replace_result(message, 'new "é"') == message.replace(b'"old \\u00e9"', '"new \\"é\\""'.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": "new"}]),
        ([], [{"type": "text", "text": "new"}]),
        ([{"type": "text", "text": "x"}, MARKED], [{**MARKED, "text": "new"}]),
        ([MARKED, {"type": "text", "text": "x"}], [{**MARKED, "text": "new"}]),
    ],
)
def test_a_list_becomes_one_text_part_and_keeps_its_mark(old, new):
    message = json.dumps({"role": "tool", "tool_call_id": "c", "content": old}).encode()

    assert json.loads(replace_result(message, "new"))["content"] == new


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_details"])
def test_reasoning_goes_and_the_rest_keeps_its_bytes(name):
    message = b'{"role":"assistant", "%s" : ["x"] ,"content":"a" , "tool_calls":[ ]}' % name.encode()

    assert strip_reasoning(message) == b'{"role":"assistant" ,"content":"a" , "tool_calls":[ ]}'


def test_thinking_chunks_go_whole():
    message = b'{"content":[ {"type":"thinking","thinking":[]} , {"type":"text","text":"a"}\n],"role":"assistant"}'

    assert strip_reasoning(message) == b'{"content":[ {"type":"text","text":"a"}\n],"role":"assistant"}'


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
        {"role": "assistant", "content": "", "reasoning": "hm"},
        {"role": "assistant", "reasoning_details": [{"text": "hm"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]},
        {"role": "user", "content": "a"},
    ],
)
def test_no_message_is_left_empty(message):
    raw = json.dumps(message).encode()

    assert strip_reasoning(raw) == raw


def asked(body):
    view = view_body({}, body, Recall())
    return splice(body, [((cut.start, cut.end), cut.text) for cut in ask_usage(view)])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"messages":[],"stream":true}', b'{"messages":[],"stream":true,"stream_options":{"include_usage":true}}'),
        (
            b'{"stream":true , "messages":[ ] \n}',
            b'{"stream":true , "messages":[ ],"stream_options":{"include_usage":true} \n}',
        ),
        (
            b'{"messages":[],"stream_options":{"x":1},"stream":true}',
            b'{"messages":[],"stream_options":{"x":1,"include_usage":true},"stream":true}',
        ),
        (
            b'{"messages":[],"stream_options":null,"stream":true}',
            b'{"messages":[],"stream_options":{"include_usage":true},"stream":true}',
        ),
        (
            b'{"messages":[],"stream_options":{"include_usage":false},"stream":true}',
            b'{"messages":[],"stream_options":{"include_usage":true},"stream":true}',
        ),
    ],
)
def test_usage_is_asked_for_without_touching_anything_else(body, expected):
    assert asked(body) == expected
    assert asked(expected) == expected


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[]}',
        b'{"messages":[],"stream":false}',
        b'{"messages":[],"stream":true,"stream_options":{"include_usage":true}}',
    ],
)
def test_where_it_is_not_allowed_or_not_needed_nothing_is_asked(body):
    assert asked(body) == body
