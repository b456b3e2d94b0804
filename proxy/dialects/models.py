"""Context windows in the list of models that an upstream answers, in all the spellings that were seen.

OpenRouter, Groq, Mistral, vLLM, llama.cpp, LM Studio, Together, Anthropic (`data`), Gemini (`models`). OpenAI's own list
names none.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.dialects.fields import mapping, name_of
from proxy.wire.body import loads

# What is really served comes before what the model was trained for.
_FIELDS = (
    "loaded_context_length",
    "max_model_len",
    "context_window",
    "context_length",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
)
_META = ("n_ctx", "n_ctx_train")
_MOST_MODELS = 2_000
_LEAST, _MOST = 256, 100_000_000


def windows_in(body: bytes) -> dict[str, int]:
    """Model → context window in tokens, as far as the list says; empty for anything else."""
    try:
        answer = loads(body)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, int] = {}
    for row in _rows(answer):
        name = row.get("id") or row.get("name")
        window = _window(row)
        if isinstance(name, str) and window is not None and len(found) < _MOST_MODELS:
            found[name_of(name).removeprefix("models/")] = window
    return found


def _rows(answer: Any) -> Iterator[Mapping[str, Any]]:
    # Together answers with a bare array.
    listed = answer if isinstance(answer, list) else mapping(answer).get("data") or mapping(answer).get("models")
    if isinstance(listed, list):
        yield from (row for row in listed if isinstance(row, dict))


def _window(row: Mapping[str, Any]) -> int | None:
    values = [row.get(name) for name in _FIELDS] + [mapping(row.get("meta")).get(name) for name in _META]
    named = next((value for value in map(_tokens, values) if value is not None), None)
    # OpenRouter: the model's own window, and that of the provider which answers.
    served = _tokens(mapping(row.get("top_provider")).get("context_length"))
    return min(named, served) if named is not None and served is not None else named


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST else None
