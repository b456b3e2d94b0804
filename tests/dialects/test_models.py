"""Windows in lists of models."""

import json

import pytest

from proxy.dialects.models import windows_in

LISTS = {
    "OpenRouter": (
        {"data": [{"id": "a/b", "context_length": 200000, "top_provider": {"context_length": 128000}}]},
        128000,
    ),
    "OpenRouter, without a provider's": (
        {"data": [{"id": "a/b", "context_length": 200000, "top_provider": {}}]},
        200000,
    ),
    "Groq": ({"object": "list", "data": [{"id": "a/b", "context_window": 131072}]}, 131072),
    "vLLM": ({"data": [{"id": "a/b", "object": "model", "max_model_len": 32768}]}, 32768),
    "Mistral": ({"data": [{"id": "a/b", "max_context_length": 131072}]}, 131072),
    "llama.cpp, older": ({"data": [{"id": "a/b", "meta": {"n_ctx_train": 32768}}]}, 32768),
    "llama.cpp": (
        {"models": [{"name": "a/b"}], "data": [{"id": "a/b", "meta": {"n_ctx": 3072, "n_ctx_train": 32768}}]},
        3072,
    ),
    "LM Studio": ({"data": [{"id": "a/b", "max_context_length": 131072, "loaded_context_length": 4096}]}, 4096),
    "Gemini": ({"models": [{"name": "models/a/b", "inputTokenLimit": 1048576, "outputTokenLimit": 8192}]}, 1048576),
    "Together": ([{"id": "a/b", "context_length": 8192}], 8192),
}


@pytest.mark.parametrize("name", LISTS)
def test_each_providers_list_names_the_window(name):
    answer, window = LISTS[name]

    assert windows_in(json.dumps(answer).encode()) == {"a/b": window}


NOTHING = [b"", b"no json", b"[[1]]", b'{"data":{}}', b'{"data":[{"id":"gpt-4o","owned_by":"openai"}]}', b"[" * 5000]


@pytest.mark.parametrize("body", NOTHING)
def test_what_names_no_window_teaches_none(body):
    assert windows_in(body) == {}


@pytest.mark.parametrize("window", [True, 0, -1, 1, "8192", None, 8.5, 10**12])
def test_impossible_windows_are_not_believed(window):
    assert windows_in(json.dumps({"data": [{"id": "m", "context_length": window}]}).encode()) == {}


def test_a_name_that_is_no_text_becomes_one():
    body = b'{"data": [{"id": "a\\ud800", "context_length": 8192}]}'

    assert windows_in(body) == {"a?": 8192}


def test_a_list_without_end_is_bounded():
    rows = [{"id": f"m{number}", "context_length": 8192} for number in range(5000)]

    assert len(windows_in(json.dumps({"data": rows}).encode())) == 2000
