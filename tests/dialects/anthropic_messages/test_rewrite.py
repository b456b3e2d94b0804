import json

import pytest

from proxy.dialects.anthropic_messages.rewrite import replace_results, strip_reasoning

MARK = '"cache_control" : {"type":"ephemeral","ttl":"1h"}'


def test_a_string_stays_a_string_and_every_other_byte_stays():
    message = b'{ "role":"user", "content" : [\n {"type":"tool_result","tool_use_id":"a","content":"old \\u00e9","is_error": true,"x":1.0} , {"type":"text","text":"note"}]\t}'

    assert replace_results(message, {0: 'new "é"'}) == message.replace(b'"old \\u00e9"', '"new \\"é\\""'.encode())


def test_a_list_becomes_one_text_block():
    message = b'{"role":"user","content":[{"content":[{"type":"text","text":"a"},{"type":"image","source":{}}],"type":"tool_result"}]}'

    assert replace_results(message, {0: "new"}) == (
        b'{"role":"user","content":[{"content":[{"type":"text","text":"new"}],"type":"tool_result"}]}'
    )


def test_several_results_of_one_message_are_addressed_by_their_place():
    blocks = [{"type": "tool_result", "tool_use_id": name, "content": name} for name in "abc"]
    message = json.dumps({"role": "user", "content": blocks}).encode()
    new = json.loads(replace_results(message, {0: "A", 2: "C"}))["content"]

    assert [(block["tool_use_id"], block["content"]) for block in new] == [("a", "A"), ("b", "b"), ("c", "C")]


def test_marks_stay_and_none_is_added():
    inside = f'{{"content":[{{"type":"tool_result","tool_use_id":"a","content":[{{"type":"text","text":"x"}},{{"type":"text","text":"y",{MARK}}}]}}]}}'
    outside = f'{{"content":[{{"type":"tool_result","content":"x",{MARK}}}]}}'
    neither = '{"content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}'
    null = '{"content":[{"type":"tool_result","content":[{"type":"text","text":"x","cache_control":null}]}]}'

    for message, marks in ((inside, 1), (outside, 1), (neither, 0), (null, 0)):
        new = replace_results(message.encode(), {0: "new"})

        assert new.count(b"cache_control") == marks
        assert b'"new"' in new
    block = json.loads(replace_results(inside.encode(), {0: "new"}))["content"][0]["content"]
    assert block == [{"type": "text", "text": "new", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":"text"}',
        b'{"role":"user"}',
        b'{"content":[{"type":"tool_result","tool_use_id":"a"}]}',
        b'{"content":[{"type":"text","content":"x"}]}',
        b'{"content":[{"type":"web_search_tool_result","content":[{"encrypted_content":"E"}]}]}',
    ],
)
def test_where_there_is_no_result_with_content_nothing_is_written(message):
    assert replace_results(message, {0: "new", 5: "far"}) == message


def test_thinking_goes_whole_and_the_rest_keeps_its_bytes():
    message = (
        b'{"role":"assistant", "content":[ {"type":"thinking","thinking":"hm","signature":"c2ln"} ,\n'
        b'  {"type":"text","text":"one"},{"type":"redacted_thinking","data":"x"} , {"type":"tool_use","id":"a","name":"n","input":{ }}\n]}'
    )

    assert strip_reasoning(message) == (
        b'{"role":"assistant", "content":[\n'
        b'  {"type":"text","text":"one"} , {"type":"tool_use","id":"a","name":"n","input":{ }}\n]}'
    )


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": " \n"}],
        [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": ""}, {"type": "text"}],
        [],
        [{"type": "text", "text": "only text"}],
        "a string",
    ],
)
def test_no_message_is_left_empty_or_blank(blocks):
    message = json.dumps({"role": "assistant", "content": blocks}).encode()

    assert strip_reasoning(message) == message


@pytest.mark.parametrize("rest", [{"type": "tool_use", "id": "a", "name": "n", "input": {}}, {"type": "future"}])
def test_anything_but_blank_text_is_a_message(rest):
    message = json.dumps({"role": "assistant", "content": [{"type": "thinking", "thinking": ""}, rest]}).encode()

    assert json.loads(strip_reasoning(message))["content"] == [rest]
