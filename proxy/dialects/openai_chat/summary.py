"""Chat completions: the requests that ask for a summary."""

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


def fresh(model: str, system: str, text: str, max_tokens: int) -> bytes:
    """A request of its own."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return dumps({"model": model, "messages": messages, "max_tokens": max_tokens})


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
