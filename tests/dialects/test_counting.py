import json

import pytest
from anthropic.types.beta import message_count_tokens_params as anthropic_count
from openai.types.responses import input_token_count_params as openai_count

from proxy.dialects.counting import count_answer, count_request


def asked(dialect, path, body):
    found = count_request(dialect, path, json.dumps(body).encode())
    return found and (found[0], json.loads(found[1]))


def test_a_messages_call_is_counted_without_what_the_endpoint_refuses():
    body = {"model": "m", "max_tokens": 5, "stream": True, "system": "s", "messages": [], "metadata": {}}
    kept = {"model": "m", "system": "s", "messages": []}
    assert asked("anthropic_messages", "/v1/messages", body) == ("/v1/messages/count_tokens", kept)


def test_a_responses_call_is_counted_without_what_the_endpoint_refuses():
    body = {"model": "m", "input": "x", "store": False, "stream": True, "previous_response_id": "r"}
    kept = {"model": "m", "input": "x", "previous_response_id": "r"}
    assert asked("openai_responses", "/v1/responses", body) == ("/v1/responses/input_tokens", kept)


@pytest.mark.parametrize(("dialect", "path", "sdk"), [
    ("anthropic_messages", "/v1/messages", anthropic_count.MessageCountTokensParams),
    ("openai_responses", "/v1/responses", openai_count.InputTokenCountParams),
])  # fmt: skip
def test_the_official_sdk_has_all_that_is_passed_on_and_leaves_out_only_what_is_no_prompt(dialect, path, sdk):
    """`betas` becomes a header; the rest names who pays. Of the SDK's beta parameters only some are stable ones."""
    offered = dict.fromkeys(sdk.__annotations__)
    _, passed_on = asked(dialect, path, offered)

    assert offered.keys() - passed_on.keys() <= {"betas", "billing_policy", "user_profile_id", "workspace_id"}


@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent"])
@pytest.mark.parametrize("model", ["models/g", "tunedModels/g"])
def test_the_gemini_api_counts_a_whole_request_that_names_its_model(model, verb):
    body = {"contents": [], "generationConfig": {}, "tools": [], "cachedContent": "cachedContents/c"}
    path, wrapped = asked("gemini", f"/up/it/v1beta/{model}:{verb}", body)
    assert path == f"/up/it/v1beta/{model}:countTokens"
    assert wrapped == {"generateContentRequest": body | {"model": model}}


@pytest.mark.parametrize("path", [
    "/v1/projects/p/locations/l/publishers/google/models/g",
    "/v1/publishers/google/models/g",
    "/v1beta1/projects/p/locations/l/endpoints/7",
])  # fmt: skip
def test_vertex_counts_the_keys_as_such(path):
    body = {"contents": [], "system_instruction": {}, "safetySettings": [], "toolConfig": {}}
    assert asked("gemini", f"{path}:generateContent", body) == (
        f"{path}:countTokens",
        {"contents": [], "system_instruction": {}},
    )


@pytest.mark.parametrize(("dialect", "path", "body"), [
    # No endpoint.
    ("openai_chat", "/v1/chat/completions", {"messages": []}),
    ("anthropic_messages", "/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict", {"messages": []}),
    ("gemini", "/v1internal:generateContent", {"request": {"contents": []}}),
    # A count itself.
    ("anthropic_messages", "/v1/messages/count_tokens", {"messages": []}),
    ("openai_responses", "/v1/responses/input_tokens", {"input": []}),
    ("gemini", "/v1beta/models/g:countTokens", {"contents": []}),
    # The endpoint would not see all of the prompt.
    ("anthropic_messages", "/v1/messages", {"messages": [], "container": {"skills": []}}),
    ("openai_responses", "/v1/responses", {"input": [], "prompt": {"id": "p"}}),
    ("gemini", "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
     {"contents": [], "cachedContent": "c"}),
])  # fmt: skip
def test_what_cannot_be_counted_whole_is_not_asked_about(dialect, path, body):
    assert asked(dialect, path, body) is None


@pytest.mark.parametrize(("dialect", "answer", "tokens"), [
    ("anthropic_messages", b'{"input_tokens":7}', 7),
    ("openai_responses", b'{"object":"response.input_tokens","input_tokens":8}', 8),
    ("gemini", b'{"totalTokens":9}', 9),
    ("gemini", b'{"totalTokens":"9"}', None),
    ("gemini", b'{"totalTokens":true}', None),
    ("gemini", b'{"totalTokens":9.5}', None),
    ("openai_responses", b'{"input_tokens":0}', None),
    ("openai_responses", b'{"input_tokens":-8}', None),
    ("anthropic_messages", b"<html></html>", None),
    ("anthropic_messages", b"[" * 60_000, None),
    ("anthropic_messages", b"[]", None),
    ("anthropic_messages", b"\xff", None),
    ("anthropic_messages", b"", None),
])  # fmt: skip
def test_the_answer_is_a_number_or_nothing(dialect, answer, tokens):
    assert count_answer(dialect, answer) == tokens
