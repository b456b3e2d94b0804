"""Gemini: the requests that ask for a summary."""

import re

from proxy.dialects.fields import mapping
from proxy.dialects.gemini.spelling import spelled
from proxy.wire.body import dumps, loads, object_spans, splice, with_keys, without_keys

_MODEL = re.compile(r"(?<=/models/)[^/:]+(?=:)")
_ACTION = re.compile(r":[A-Za-z]+$")
_NOT_FOR_SUMMARIES = frozenset(
    {
        "stopSequences", "stop_sequences", "responseMimeType", "response_mime_type", "responseSchema",
        "response_schema", "responseJsonSchema", "response_json_schema", "candidateCount", "candidate_count",
        "responseModalities", "response_modalities",
    }
)  # fmt: skip


def target(path: str, model: str) -> str:
    """`…:generateContent`; a tuned model's endpoint and Code Assist have no model in the path that we could change."""
    return _ACTION.sub(":generateContent", _MODEL.sub(model, path) if model else path)


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
    """The conversation's own request, asked for plain text and for no calls; Code Assist's wrapping stays."""
    spans = object_spans(body)
    if "contents" not in spans and "request" in spans:
        span = spans["request"]
        return splice(body, [(span, continued(body[slice(*span)], max_tokens))])
    name = spelled(spans, "generationConfig")
    config = mapping(loads(body[slice(*spans[name])])) if name else {}
    kept = {key: value for key, value in config.items() if key not in _NOT_FOR_SUMMARIES}
    limit = spelled(kept, "maxOutputTokens") or "maxOutputTokens"
    values = {name or "generationConfig": dumps({**kept, limit: max_tokens})}
    if "tools" in spans:
        body = without_keys(body, ("toolConfig", "tool_config"))
        values["toolConfig"] = b'{"functionCallingConfig":{"mode":"NONE"}}'
    return with_keys(body, values)
