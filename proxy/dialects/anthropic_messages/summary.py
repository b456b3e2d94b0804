"""Anthropic Messages: the requests that ask for a summary."""

from proxy.wire.body import dumps, loads, object_spans, with_keys, without_keys

# Forced tools and formats spoil the text; tools, system and thinking stay as they are, since the cache hangs on them.
_NOT_FOR_SUMMARIES = ("stream", "stop_sequences", "output_format", "output_config", "context_management")


def fresh(model: str, system: str, text: str, max_tokens: int) -> bytes:
    """A request of its own."""
    messages = [{"role": "user", "content": text}]
    return dumps({"model": model, "max_tokens": max_tokens, "system": system, "messages": messages})


def continued(body: bytes, max_tokens: int) -> bytes:
    """The conversation's own request, asked for plain text.

    The output limit must stay above a thinking budget; a forced tool choice goes, `auto` stays (changing it would
    break the cache of the messages).
    """
    plain = without_keys(body, _NOT_FOR_SUMMARIES)
    spans = object_spans(plain)
    if "tool_choice" in spans:
        choice = loads(plain[slice(*spans["tool_choice"])])
        if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
            plain = without_keys(plain, ("tool_choice",))
            spans = object_spans(plain)
    thinking = loads(plain[slice(*spans["thinking"])]) if "thinking" in spans else None
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    room = budget + max_tokens if isinstance(budget, int) else max_tokens
    return with_keys(plain, {"max_tokens": b"%d" % room})
