import json

import pytest

from proxy.conversation.model import NO_TOOLS, Opaque, Text
from proxy.conversation.recall import Recall
from proxy.dialects.gemini.view import view_body

PATH = "/v1beta/models/gemini-2.5-pro:generateContent"
USER = {"role": "user", "parts": [{"text": "u"}]}


def view(body=None, path=PATH, **fields):
    raw = body if body is not None else json.dumps({"contents": [USER], **fields}).encode()
    return view_body(path, {}, raw, Recall())


@pytest.mark.parametrize(
    ("path", "model", "streams"),
    [
        (PATH, "gemini-2.5-pro", False),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent", "gemini-2.5-pro", True),
        ("/v1beta1/projects/p/locations/l/publishers/google/models/g-3:streamGenerateContent", "g-3", True),
        ("/v1/projects/p/locations/l/endpoints/123:generateContent", "123", False),
        ("/v1beta/tunedModels/mine:generateContent", "mine", False),
        ("/v1beta/models/g:countTokens", "g", False),
        ("/v1internal:streamGenerateContent", "named", True),
    ],
)
def test_the_path_names_the_model_and_the_way_of_answering(path, model, streams):
    seen = view(path=path, model="models/named").conversation

    assert (seen.model, seen.stream) == (model, streams)


@pytest.mark.parametrize("system", ["systemInstruction", "system_instruction"])
@pytest.mark.parametrize("declarations", ["functionDeclarations", "function_declarations"])
@pytest.mark.parametrize(
    ("config", "limit", "several"),
    [
        ("generationConfig", "maxOutputTokens", "candidateCount"),
        ("generation_config", "max_output_tokens", "candidate_count"),
    ],
)
def test_both_spellings_are_read_even_mixed(system, declarations, config, limit, several):
    seen = view(
        **{
            system: {"parts": [{"text": "s"}]},
            "tools": [{declarations: [{"name": "f", "parameters_json_schema": {}}]}, {"googleSearch": {}}],
            config: {limit: 99, several: 2, "responseSchema": {"description": "x" * 5000}},
        }
    )

    assert [message.parts for message in seen.conversation.system] == [(Text(text="s"),)]
    assert seen.conversation.tools.names == ("f", "googleSearch")
    assert (seen.conversation.max_output, seen.choices) == (99, 2)
    assert "parameters_json_schema" in seen.conversation.tools.text


def test_what_a_request_leaves_out_is_nothing():
    seen = view(systemInstruction=None, generationConfig=None, tools=[])

    assert seen.conversation.system == ()
    assert seen.conversation.tools == NO_TOOLS
    assert (seen.conversation.max_output, seen.choices) == (None, 1)
    assert (seen.conversation.server_history, seen.conversation.server_edits) == ("", False)


@pytest.mark.parametrize("name", ["cachedContent", "cached_content"])
def test_a_cached_content_is_a_prefix_that_the_provider_keeps(name):
    assert view(**{name: "cachedContents/c1"}).conversation.kept_prefix
    assert not view(**{name: None}).conversation.kept_prefix
    assert not view().conversation.kept_prefix


def test_tools_may_come_without_their_list():
    assert view(tools={"functionDeclarations": [{"name": "f"}]}).conversation.tools.names == ("f",)


@pytest.mark.parametrize("wrapper", ["generateContentRequest", "generate_content_request", "request"])
def test_a_wrapped_request_is_read_with_its_own_spans(wrapper):
    inner = {"contents": [USER, USER], "model": "models/g", "session_id": "s1"}
    body = json.dumps({"project": "p", wrapper: inner}).encode()
    seen = view(body, path="/v1internal:generateContent")

    assert [json.loads(body[slice(*span)]) for span in seen.spans] == [USER, USER]
    assert json.loads(body[slice(*seen.fields["contents"])]) == [USER, USER]
    assert (seen.conversation.model, seen.conversation.session_label) == ("g", "s1")


def test_a_single_content_needs_no_list_but_cannot_be_edited():
    seen = view(b'{"contents":{"role":"user","parts":{"text":"u"}}}')

    assert seen.conversation.messages[0].parts == (Text(text="u"),)
    assert seen.body[slice(*seen.spans[0])] == b'{"role":"user","parts":{"text":"u"}}'
    assert not seen.editable
    assert view().editable


def test_cached_content_is_a_system_text_that_cannot_be_read():
    seen = view(cachedContent="cachedContents/abc").conversation

    assert seen.system[0].parts == (Opaque(kind="cachedContent", size_chars=18),)
    assert seen.server_history == ""
    assert seen.system[0].digest != view(cached_content="cachedContents/abd").conversation.system[0].digest


def test_a_clients_own_summary_call_is_a_side_call():
    asks = {"parts": [{"text": "You are the component that summarizes internal chat history into a given structure."}]}

    assert view(systemInstruction=asks).conversation.utility
    assert not view().conversation.utility


def test_a_message_is_parsed_once():
    recall = Recall()
    body = json.dumps({"contents": [USER], "systemInstruction": {"parts": [{"text": "s"}]}}).encode()
    first, again = (view_body(PATH, {}, body, recall).conversation for _ in range(2))

    assert first.messages[0] is again.messages[0]
    assert first.system[0] is again.system[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"contents":"hi"}',
        b'{"contents":null}',
        b'{"contents":[}',
        b'{"contents":[],"contents":[]}',
        b'{"contents":[],"generationConfig":[]}',
        b'{"generateContentRequest":[]}',
        b'{"request":{"contents":5}}',
    ],
)
def test_what_is_no_request_has_no_view(body):
    assert view(body) is None
