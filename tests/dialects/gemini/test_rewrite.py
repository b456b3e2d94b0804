import json

import pytest

from proxy.dialects.gemini.contents import parse_content
from proxy.dialects.gemini.rewrite import replace_responses, strip_thoughts


@pytest.mark.parametrize("key", ["functionResponse", "function_response"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{ "result" : "long", "exit_code": 1 }', '{ "result" : "short", "exit_code": 1 }'),
        ('{"stdout":"long","stderr":"e"}', '{"output":"short"}'),
        ("{}", '{"output":"short"}'),
    ],
)
def test_a_response_stays_an_object_and_everything_around_it_stays(key, old, new):
    body = '{"x":"\\u00e9", "parts" : [ {"%s":{"id":"1","name":"a", "response": %s ,"y":[1]},"z":null}, {"text":"t"}],"role":"user"}'

    assert replace_responses((body % (key, old)).encode(), {0: "short"}).decode() == body % (key, new)


def test_only_the_asked_parts_of_a_content_change():
    parts = [{"functionResponse": {"name": name, "response": {"output": "long " + name}}} for name in "abc"]
    after = json.loads(replace_responses(json.dumps({"parts": parts}).encode(), {0: "A", 2: "C"}))

    assert [part["functionResponse"]["response"]["output"] for part in after["parts"]] == ["A", "long b", "C"]


@pytest.mark.parametrize("held", [{"output": "long"}, {"a": "x", "b": "y"}, {"n": [1]}, {}])
def test_writing_twice_changes_nothing_and_the_text_is_found_again(held):
    content = json.dumps({"parts": {"functionResponse": {"name": "f", "response": held}}}).encode()
    once = replace_responses(content, {0: 'short "\ud800" é'})

    assert replace_responses(once, {0: 'short "\ud800" é'}) == once
    assert parse_content(once).parts[0].text == 'short "\ud800" é'


def test_media_of_a_response_go_with_its_text():
    held = {
        "name": "f",
        "response": {"output": "long"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "A"}}],
    }
    once = replace_responses(json.dumps({"parts": [{"functionResponse": held}]}).encode(), {0: "short"})

    assert json.loads(once)["parts"] == [{"functionResponse": {"name": "f", "response": {"output": "short"}}}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[{"text":"t","thought":true}, {"text":"a"}]', '[ {"text":"a"}]'),
        (
            '[{"text":"t","thought":true},{"text":"","thoughtSignature":"B"},{"text":"u","thought":true},{"functionCall":{}}]',
            '[{"text":"","thoughtSignature":"B"},{"functionCall":{}}]',
        ),
        ('[{"text":"t","thought":true}]', '[{"text":"t","thought":true}]'),
        ('{"text":"t","thought":true}', '{"text":"t","thought":true}'),
        ('[{"text":"a", "thought":false}]', '[{"text":"a", "thought":false}]'),
    ],
)
def test_thoughts_go_unless_nothing_else_is_left(before, after):
    assert (
        strip_thoughts(b'{"parts":%s,"role":"model"}' % before.encode())
        == b'{"parts":%s,"role":"model"}' % after.encode()
    )
