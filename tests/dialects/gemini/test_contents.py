import json

import pytest

from proxy.conversation.model import Media, Opaque, Reasoning, Text, ToolCall, ToolResult
from proxy.conversation.pairing import pairs
from proxy.dialects.gemini.contents import parse_content, parse_system, text_key

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAAEElEQVR4nGP8z8DwnwEJMAIAEPQBA8qZ0XkAAAAASUVORK5CYII="


def content(*parts, **fields):
    return parse_content(json.dumps({"parts": list(parts), **fields}).encode())


def response(held, **more):
    return {"functionResponse": {"name": "f", "response": held, **more}}


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"text": "a"}, Text(text="a")),
        ({"text": ""}, Text(text="")),
        ({"text": "a", "thoughtSignature": "S"}, Text(text="a")),
        ({"text": "a", "thought": True}, Reasoning(text="a")),
        ({"text": "a", "thought": True, "thought_signature": "S"}, Reasoning(text="a", signed=True)),
        ({"text": "", "thoughtSignature": "S"}, Reasoning(text="", signed=True)),
        (
            {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c1"}, "thoughtSignature": "S"},
            ToolCall(call_id="c1", name="f", arguments='{"a":1}', signed=True),
        ),
        ({"function_call": {"name": "f", "id": "c1"}}, ToolCall(call_id="c1", name="f", arguments="{}")),
        (response({"output": "o"}, id="c1"), ToolResult(call_id="c1", name="f", text="o")),
        (
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "mediaResolution": {"level": "LOW"}},
            Media(kind="image", width=2, height=3, size_bytes=75, detail="LOW"),
        ),
        ({"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}}, Media(kind="audio", size_bytes=3)),
        ({"fileData": {"mimeType": "video/mp4", "fileUri": "u"}}, Media(kind="video", reference="u")),
        ({"file_data": {"mime_type": "application/pdf", "file_uri": "u"}}, Media(kind="file", reference="u")),
        ({"executableCode": {"code": "1"}, "thoughtSignature": "S"}, Opaque(kind="executableCode", size_chars=54)),
        ({"text": 5}, Opaque(kind="text", size_chars=10)),
        ({}, Opaque(kind="unknown", size_chars=2)),
        (None, Opaque(kind="unknown", size_chars=4)),
    ],
)
def test_a_part_is_read(part, read):
    assert content(part).parts == (read,)


@pytest.mark.parametrize(
    ("fields", "parts", "role"),
    [
        ({"role": "user"}, [{"text": "a"}], "user"),
        ({}, [{"text": "a"}], "user"),
        ({"role": "model"}, [{"text": "a"}], "assistant"),
        ({"role": "user"}, [response({"output": "o"}), {"text": "a"}], "tool"),
        ({"role": "function"}, [response({"output": "o"})], "tool"),
    ],
)
def test_a_content_has_the_role_of_what_it_holds(fields, parts, role):
    assert content(*parts, **fields).role == role


@pytest.mark.parametrize(
    ("held", "key", "text"),
    [
        ({"output": "o"}, "output", "o"),
        ({"return_value": "o"}, "return_value", "o"),
        ({"stdout": "o", "exit_code": 0, "cut": False, "more": None}, "stdout", "o"),
        ({"stdout": "o", "stderr": "e"}, "", '{"stdout":"o","stderr":"e"}'),
        ({"output": "o", "files": []}, "", '{"output":"o","files":[]}'),
        ({"n": 5}, "", '{"n":5}'),
        ({}, "", ""),
    ],
)
def test_a_response_is_its_only_text_or_its_json(held, key, text):
    assert text_key(held) == key
    assert content(response(held)).parts[0].text == text


@pytest.mark.parametrize("held", [None, "text", ["a"]])
def test_a_response_that_is_no_object_is_fixed(held):
    assert content(response(held)).parts[0].fixed


def test_an_error_response_is_an_error():
    assert content(response({"error": "no such file"})).parts[0].is_error
    assert not content(response({"error": None, "output": "o"})).parts[0].is_error


def test_media_that_come_with_a_response_belong_to_it():
    shown = content(response({"output": "o"}, parts=[{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]))

    assert shown.parts[0].media == (Media(kind="image", width=2, height=3, size_bytes=75),)


def test_calls_without_ids_pair_with_responses_by_name_and_order():
    calls = [{"functionCall": {"name": name, "args": {"n": n}}} for n, name in enumerate(["a", "b", "a"])]
    answers = [
        {"functionResponse": {"name": name, "response": {"output": str(n)}}} for n, name in enumerate(["a", "b", "a"])
    ]
    history = [content(*calls, role="model"), content(*answers), content(*calls[:1], role="model"), content(answers[0])]
    found = [(pair.call_message, pair.call.arguments, pair.result.text) for pair in pairs(history)]

    assert found == [(0, '{"n":0}', "0"), (0, '{"n":1}', "1"), (0, '{"n":2}', "2"), (2, '{"n":0}', "0")]


def test_a_single_part_needs_no_list():
    assert parse_content(b'{"role":"user","parts":{"text":"a"}}').parts == (Text(text="a"),)
    assert parse_content(b'{"role":"user"}').parts == ()


def test_a_content_that_is_no_object_is_carried_unread():
    assert parse_content(b'"text"').parts == (Opaque(kind="unknown", size_chars=6),)


def test_system_text_is_system_whatever_its_role_says():
    read = parse_system(b'{"role":"user","parts":[{"text":"a"}]}')

    assert (read.role, read.parts) == ("system", (Text(text="a"),))
    assert parse_system(b'"a"').parts == (Text(text="a"),)


def test_a_summary_that_the_client_wrote_is_marked():
    assert content({"text": "<state_snapshot>…"}, role="user").summary_marked
    assert not content({"text": "<state_snapshot>…"}, role="model").summary_marked
