"""Gemini: usage in the normal form.

`promptTokenCount` holds cached tokens, but not what Google's own tools put in (`toolUsePromptTokenCount`);
`candidatesTokenCount` leaves thoughts out. Total = prompt + tool use + candidates + thoughts. Counts are running totals
and stand on every chunk of a stream, at first incomplete; the last word on each counts.
"""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.fields import count, mapping
from proxy.tokens.usage import NOT_REPORTED, Usage


def is_reported(answer: Mapping[str, Any]) -> bool:
    """Whether an answer or a chunk has counts. Vertex also sends `usageMetadata` without any."""
    usage = answer.get("usageMetadata")
    return "totalTokens" in answer or (
        isinstance(usage, dict) and ("promptTokenCount" in usage or "candidatesTokenCount" in usage)
    )


def merged(before: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chunk with what earlier ones have said and it leaves out; a running total never falls back to nothing."""
    known, counts = mapping(before.get("usageMetadata")), mapping(answer.get("usageMetadata"))
    kept = {name: value for name, value in known.items() if value and not counts.get(name)}
    return {**answer, "usageMetadata": {**counts, **kept}} if kept else answer


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """The usage of an answer or a chunk, or what a count says."""
    counted = count(answer.get("totalTokens"))
    if counted is not None:
        return Usage(input_tokens=counted, cache_read_tokens=count(answer.get("cachedContentTokenCount")))
    usage = mapping(answer.get("usageMetadata"))
    prompt, said, thought, total = (
        count(usage.get(name))
        for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")
    )
    if prompt is None and said is None:
        return NOT_REPORTED
    by_tools = count(usage.get("toolUsePromptTokenCount")) or 0
    output = None if said is None and thought is None else (said or 0) + (thought or 0)
    if output is None and prompt is not None and total is not None:
        output = max(0, total - prompt - by_tools)
    return Usage(
        input_tokens=None if prompt is None else prompt + by_tools,
        cache_read_tokens=count(usage.get("cachedContentTokenCount")),
        output_tokens=output,
        reasoning_tokens=thought,
    )
