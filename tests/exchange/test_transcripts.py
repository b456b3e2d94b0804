"""Transcripts of many tools, read as requests."""

import json

from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.exchange.transcripts import conversations, transcripts

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def lines(*values):
    return b"\n".join(json.dumps(value).encode() for value in values)


def seen(transcript):
    """The roles of the conversation that the transcript's dialect views in it."""
    view = dialect_for(transcript.path).view(transcript.path, {}, transcript.body, Recall())
    return [message.role for message in view.conversation.messages]


def test_a_request_body_is_read_by_its_own_dialect():
    for body, path in (
        ({"model": "m", "messages": CHAT}, "/v1/chat/completions"),
        ({"model": "m", "system": "s", "messages": CHAT}, "/v1/messages"),
        ({"model": "m", "input": [{"role": "user", "content": "hi"}]}, "/v1/responses"),
        ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, "/v1beta/models/model:generateContent"),
    ):
        (found,) = transcripts(json.dumps(body).encode())

        assert found.path == path
        assert seen(found)[0] == "user"


def test_tool_blocks_tell_the_anthropic_form():
    block = {"type": "tool_use", "id": "a", "name": "read", "input": {}}

    (found,) = transcripts(json.dumps({"messages": [*CHAT, {"role": "assistant", "content": [block]}]}).encode())

    assert found.path == "/v1/messages"


def test_a_list_and_lines_of_messages_are_one_conversation():
    assert seen(transcripts(json.dumps(CHAT).encode())[0]) == ["user", "assistant"]
    assert seen(transcripts(lines(*CHAT))[0]) == ["user", "assistant"]


def test_a_list_of_gemini_contents_is_a_conversation():
    contents = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "hello"}]}]
    (found,) = transcripts(json.dumps(contents).encode())

    assert found.path == "/v1beta/models/model:generateContent"
    assert json.loads(found.body)["contents"] == contents


def test_notes_about_messages_are_no_messages():
    note = {"id": "msg_1", "role": "assistant", "sessionID": "ses_1", "modelID": "claude", "time": {"created": 1}}

    assert transcripts(json.dumps(note).encode()) == []
    assert transcripts(lines(note, note)) == []


def roles(found):
    return [[message.role for message in conversation.messages] for conversation in found]


def test_of_many_logged_requests_of_a_conversation_the_longest_counts():
    marked = {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}
    log = lines(
        {"request": {"body": {"messages": CHAT[:1]}}},
        {"request": {"messages": [*CHAT, {"role": "user", "content": "go on"}]}},
        {"body": {"messages": []}},
        {"messages": [marked, CHAT[1]]},
    )

    assert roles(conversations(log)) == [["user", "assistant", "user"]]


def test_each_line_of_a_data_set_is_a_conversation_of_its_own():
    def line(question):
        return {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": question}, CHAT[1]]}

    assert len(conversations(lines(line("one"), line("two"), line("three")))) == 3
    assert len(conversations(json.dumps([line("one"), line("two")]).encode())) == 2


def test_forks_of_a_conversation_are_told_apart():
    other = {"messages": [CHAT[0], {"role": "assistant", "content": "another answer"}]}

    assert len(conversations(lines({"messages": CHAT}, other))) == 2


def test_a_model_that_is_named_stands_in_for_the_transcripts():
    body = json.dumps({"model": "own", "messages": CHAT}).encode()

    assert [found.model for found in conversations(body)] == ["own"]
    assert [found.model for found in conversations(body, "other")] == ["other"]


def test_a_model_that_stands_beside_the_request_is_its_model():
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    (found,) = conversations(json.dumps({"session": "s", "model": "gemini-3-pro", "request": body}).encode())
    (own,) = conversations(json.dumps({"model": "path", "request": {**body, "model": "body"}}).encode())

    assert (found.dialect, found.model, own.model) == ("gemini", "gemini-3-pro", "body")


def test_lines_that_are_no_json_are_passed_over():
    assert roles(conversations(b"started\n" + lines({"messages": CHAT}) + b'\n{"messages": [')) == [
        ["user", "assistant"]
    ]


def test_what_is_no_transcript_gives_nothing():
    assert transcripts(b"") == []
    assert transcripts(b"plain text\nof a log") == []
    assert transcripts(b'{"a": 1}\n[1, 2]\n"x"') == []


def test_a_line_too_deep_to_be_read_does_not_keep_the_others_from_being_read():
    lines = [json.dumps({"role": "user", "content": "hi"}).encode(), b"[" * 200_000 + b"]" * 200_000]

    assert len(conversations(b"\n".join(lines))) == 1
