"""Chat completions: the requests that ask for a summary."""

import re

from proxy.wire.body import dumps, object_spans, with_keys, without_keys

_NOT_FOR_SUMMARIES = (
    "stream",
    "stream_options",
    "response_format",
    "stop",
    "n",
    "logprobs",
    "top_logprobs",
    "function_call",
    "parallel_tool_calls",
    "prediction",
    "modalities",
    "audio",
)


_REASONS = re.compile(r"(^|/)(o\d|gpt-[5-9])")
"""OpenAI's reasoning models refuse `max_tokens`; everybody else may not know its successor (API reference, 2026-11)."""


def fresh(model: str, system: str, text: str, max_tokens: int) -> bytes:
    """A request of its own."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    limit = "max_completion_tokens" if _REASONS.search(model) else "max_tokens"
    return dumps({"model": model, "messages": messages, limit: max_tokens})


def continued(body: bytes, max_tokens: int) -> bytes:
    """The conversation's own request, asked for plain text.

    An output limit is set only where the client set one, under the name it used: models differ in which they accept.
    """
    plain = without_keys(body, _NOT_FOR_SUMMARIES)
    spans = object_spans(plain)
    values = {str(name): b"%d" % max_tokens for name in ("max_tokens", "max_completion_tokens") if name in spans}
    if "tools" in spans:
        values["tool_choice"] = b'"none"'
    return with_keys(plain, values)
