"""Responses: usage in the normal form. Input holds cached and newly cached tokens, output holds reasoning."""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.fields import count, mapping, whole_input
from proxy.tokens.usage import NOT_REPORTED, Usage


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """The usage of a response object, or the count of a `response.input_tokens` object."""
    if answer.get("object") == "response.input_tokens":
        return Usage(input_tokens=count(answer.get("input_tokens")))
    usage = mapping(answer.get("usage"))
    taken, written = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if taken is None and written is None:
        return NOT_REPORTED
    inside, outside = mapping(usage.get("input_tokens_details")), mapping(usage.get("output_tokens_details"))
    cached, reasoning = count(inside.get("cached_tokens")), count(outside.get("reasoning_tokens"))
    if reasoning is not None and written is not None:
        reasoning = min(reasoning, written)
    return Usage(
        input_tokens=whole_input(taken, cached),
        cache_read_tokens=cached,
        cache_write_tokens=count(inside.get("cache_write_tokens")),
        output_tokens=written,
        reasoning_tokens=reasoning,
    )
