"""OpenAI Responses: the requests that ask for a summary."""

from proxy.wire.body import dumps, object_spans, with_keys, without_keys

_NOT_FOR_SUMMARIES = (
    "stream",
    "stream_options",
    "text",
    "background",
    "max_tool_calls",
    "top_logprobs",
    "include",
    "context_management",
)


def fresh(model: str, system: str, text: str, max_tokens: int) -> bytes:
    """A request of its own; nothing of it is stored."""
    return dumps(
        {"model": model, "instructions": system, "input": text, "max_output_tokens": max_tokens, "store": False}
    )


def continued(body: bytes, max_tokens: int) -> bytes:
    """The conversation's own request, asked for plain text and not stored."""
    plain = without_keys(body, _NOT_FOR_SUMMARIES)
    spans = object_spans(plain)
    values = {"store": b"false"}
    if "max_output_tokens" in spans:
        values["max_output_tokens"] = b"%d" % max_tokens
    if "tools" in spans:
        values["tool_choice"] = b'"none"'
    return with_keys(plain, values)
