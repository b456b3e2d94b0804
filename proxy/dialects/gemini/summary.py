"""Gemini: the requests that ask for a summary."""

import re

from proxy.wire.body import dumps, loads, object_spans, with_keys, without_keys

_ACTION = re.compile(r"/models/([^/:]+):[A-Za-z]+$")
_CONFIG_NAMES = ("generationConfig", "generation_config")
_NOT_FOR_SUMMARIES = frozenset(
    {
        "stopSequences", "stop_sequences", "responseMimeType", "response_mime_type", "responseSchema",
        "response_schema", "responseJsonSchema", "response_json_schema", "candidateCount", "candidate_count",
        "responseModalities", "response_modalities",
    }
)  # fmt: skip


def target(path: str, model: str) -> str:
    """`…/models/MODEL:generateContent`."""
    return _ACTION.sub(lambda found: f"/models/{model or found[1]}:generateContent", path)


def fresh(system: str, text: str, max_tokens: int) -> bytes:
    """A request of its own."""
    return dumps(
        {
            "systemInstruction": {"parts": [{"text": system}]},
            "contents": [{"role": "user", "parts": [{"text": text}]}],
            "generationConfig": {"maxOutputTokens": max_tokens},
        }
    )


def continued(body: bytes, max_tokens: int) -> bytes:
    """The conversation's own request, asked for plain text and for no calls."""
    spans = object_spans(body)
    name = next((name for name in _CONFIG_NAMES if name in spans), _CONFIG_NAMES[0])
    config = loads(body[slice(*spans[name])]) if name in spans else {}
    kept = {key: value for key, value in config.items() if key not in _NOT_FOR_SUMMARIES}
    limit = "max_output_tokens" if "max_output_tokens" in kept else "maxOutputTokens"
    values = {name: dumps({**kept, limit: max_tokens})}
    if "tools" in spans:
        body = without_keys(body, ("toolConfig", "tool_config"))
        values["toolConfig"] = b'{"functionCallingConfig":{"mode":"NONE"}}'
    return with_keys(body, values)
