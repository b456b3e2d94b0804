import json

import pytest

from proxy.conversation.model import NO_TOOLS, Text
from proxy.conversation.recall import Recall
from proxy.dialects.openai_responses.view import view_body


def view(body=None, headers=(), **fields):
    raw = body if body is not None else json.dumps({"model": "m", **fields}).encode()
    return view_body(dict(headers), raw, Recall())


def texts(messages):
    return [part.text for message in messages for part in message.parts if isinstance(part, Text)]


def test_instructions_and_leading_developer_items_are_system_text():
    seen = view(
        instructions="be brief",
        input=[
            {"role": "developer", "content": "d"},
            {"role": "user", "content": "u"},
            {"role": "system", "content": "s"},
        ],
    )

    assert texts(seen.conversation.system) == ["be brief", "d"]
    assert texts(seen.conversation.messages) == ["u", "s"]
    assert json.loads(seen.body[slice(*seen.spans[0])]) == {"role": "user", "content": "u"}


def test_a_plain_string_is_one_user_message_that_cannot_be_edited():
    seen = view(input="hello", instructions=None)

    assert texts(seen.conversation.messages) == ["hello"]
    assert seen.conversation.system == ()
    assert seen.body[slice(*seen.spans[0])] == b'"hello"'
    assert not seen.editable


def test_a_string_is_the_beginning_of_the_list_that_continues_it():
    first = view(input="hello").conversation.messages
    later = view(input=[{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])

    assert later.conversation.messages[0].digest == first[0].digest
    assert later.editable


def test_settings_of_the_request_are_read():
    seen = view(
        input="x",
        stream=True,
        max_output_tokens=77,
        tools=[{"type": "function", "name": "f", "parameters": {}}, {"type": "web_search"}],
        prompt_cache_key="session-1",
    ).conversation

    assert (seen.dialect, seen.model, seen.stream, seen.max_output) == ("openai_responses", "m", True, 77)
    assert seen.tools.names == ("f", "web_search")
    assert seen.session_label == "session-1"
    assert view(input="x").conversation.tools == NO_TOOLS
    assert view(input="x", max_output_tokens=None).conversation.max_output is None


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({}, ""),
        ({"previous_response_id": None}, ""),
        ({"previous_response_id": "resp_1"}, "resp_1"),
        ({"conversation": "conv_1"}, "conv_1"),
        ({"conversation": {"id": "conv_2"}}, "conv_2"),
        ({"conversation": {}}, ""),
    ],
)
def test_history_that_the_provider_holds_is_named(fields, held):
    assert view(input="x", **fields).conversation.server_history == held


@pytest.mark.parametrize(("prompt", "kept"), [(None, False), ({"id": "pmpt_1", "variables": {"a": "b"}}, True)])
def test_a_stored_prompt_is_a_prefix_that_the_provider_keeps(prompt, kept):
    assert view(input="x", prompt=prompt).conversation.kept_prefix is kept


@pytest.mark.parametrize("said", [{}, {"input": None}])
@pytest.mark.parametrize("held", [{"prompt": {"id": "p"}}, {"previous_response_id": "r"}, {"conversation": "c"}])
def test_all_that_is_asked_may_stand_with_the_provider(said, held):
    seen = view(**said, **held)

    assert seen.conversation.messages == ()
    assert not seen.editable


@pytest.mark.parametrize(
    ("fields", "edits"),
    [
        ({}, False),
        ({"truncation": "disabled"}, False),
        ({"truncation": "auto"}, True),
        ({"context_management": []}, False),
        ({"context_management": [{"type": "compaction", "compact_threshold": 1000}]}, True),
    ],
)
def test_editing_by_the_provider_is_seen(fields, edits):
    assert view(input="x", **fields).conversation.server_edits is edits


def test_a_request_for_compaction_is_a_side_call():
    history = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]

    assert view(input=[*history, {"type": "compaction_trigger"}]).conversation.utility
    assert view(input="hi", instructions="You are a title generator. …").conversation.utility
    assert not view(input=history).conversation.utility


def test_a_message_is_parsed_once():
    recall = Recall()
    body = json.dumps({"input": [{"role": "user", "content": "hello"}], "instructions": "i"}).encode()

    first, again = (view_body({}, body, recall).conversation for _ in range(2))

    assert first.messages[0] is again.messages[0]
    assert first.system[0] is again.system[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"model":"m"}',
        b'{"model":"m","prompt":null}',
        b'{"input":[}',
        b'{"input":5}',
        b'{"input":null}',
        b'{"input":{"role":"user"}}',
        b'{"input":"a","input":"b"}',
        b'{"input":[{"role":"user","content":"a","content":"b"}],"input":"c"}',
    ],
)
def test_what_is_no_request_has_no_view(body):
    assert view(body) is None


def test_lone_surrogates_do_not_matter():
    seen = view(b'{"input":[{"role":"user","content":"\\ud800"}, {"role":"user","content":"b"}]}')

    assert [seen.body[slice(*span)] for span in seen.spans][1] == b'{"role":"user","content":"b"}'
    assert texts(seen.conversation.messages) == ["\ud800", "b"]
