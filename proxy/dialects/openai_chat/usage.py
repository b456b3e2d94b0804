"""Chat completions: the many habits of reporting usage, in one normal form."""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.fields import count, first_count, mapping, whole_input
from proxy.tokens.usage import NOT_REPORTED, Usage


def usage_of(answer: Mapping[str, Any]) -> Usage:
    """The usage that a completion or a chunk carries, wherever its provider puts it.

    Places: `usage` (all), `x_groq.usage` (Groq), `choices[0].usage` (Moonshot).
    """
    found = answer.get("usage")
    if not found or not isinstance(found, dict):
        # Most chunks have it nowhere.
        found = mapping(mapping(answer["x_groq"]).get("usage")) if "x_groq" in answer else None
        choices = answer.get("choices")
        if not found and choices and isinstance(choices, list):
            found = mapping(choices[0]).get("usage")
    return normal_form(found) if found and isinstance(found, dict) else NOT_REPORTED


def normal_form(usage: Mapping[str, Any]) -> Usage:
    """Full input and full output.

    Three providers leave something outside the two sums, and the total tells: xAI its reasoning, Google's compatible
    endpoint its (unnamed) thinking, Mistral its audio. xAI has also been seen to leave cached tokens out of the prompt.
    """
    prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    inside = mapping(usage.get("prompt_tokens_details"))
    outside = mapping(usage.get("completion_tokens_details"))
    cached = first_count(inside.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    reasoning = first_count(outside.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    if prompt is None and completion is None:
        return NOT_REPORTED
    if prompt is not None and completion is not None and total is not None and total > prompt + completion:
        beyond = total - prompt - completion
        if beyond == count(inside.get("audio_tokens")):
            prompt += beyond
        elif reasoning in (None, 0) or reasoning == beyond:
            completion += beyond
            reasoning = beyond
    if reasoning is not None and completion is not None:
        reasoning = min(reasoning, completion)
    return Usage(
        input_tokens=whole_input(prompt, cached),
        cache_read_tokens=cached,
        cache_write_tokens=count(inside.get("cache_write_tokens")),
        output_tokens=completion,
        reasoning_tokens=reasoning,
    )
