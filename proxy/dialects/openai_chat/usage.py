"""Chat completions: the many habits of reporting usage, in one normal form."""

from collections.abc import Mapping
from typing import Any

import msgspec

from proxy.dialects.fields import Count, counts, mapping, whole_input
from proxy.tokens.usage import NOT_REPORTED, Usage


class _Inside(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: Count = None
    cache_write_tokens: Count = None
    cache_creation_input_tokens: Count = None
    """DashScope's name for it."""
    audio_tokens: Count = None


class _Outside(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: Count = None


class _Reported(msgspec.Struct, frozen=True, gc=False):
    """The fields that say something, under their own names."""

    prompt_tokens: Count = None
    completion_tokens: Count = None
    total_tokens: Count = None
    prompt_tokens_details: _Inside | None = None
    completion_tokens_details: _Outside | None = None
    prompt_cache_hit_tokens: Count = None
    cached_tokens: Count = None
    cache_creation_input_tokens: Count = None
    """Vercel's gateway and LiteLLM tell here what was written to the cache."""
    reasoning_tokens: Count = None


_INSIDE, _OUTSIDE = "prompt_tokens_details", "completion_tokens_details"
_NOTHING_INSIDE, _NOTHING_OUTSIDE = _Inside(), _Outside()


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
    said = _reported(usage)
    prompt, completion, total = said.prompt_tokens, said.completion_tokens, said.total_tokens
    if prompt is None and completion is None:
        return NOT_REPORTED
    inside = said.prompt_tokens_details or _NOTHING_INSIDE
    outside = said.completion_tokens_details or _NOTHING_OUTSIDE
    cached, written, reasoning = inside.cached_tokens, inside.cache_write_tokens, outside.reasoning_tokens
    if written is None:
        written = inside.cache_creation_input_tokens
        written = said.cache_creation_input_tokens if written is None else written
    if cached is None:
        cached = said.cached_tokens if said.prompt_cache_hit_tokens is None else said.prompt_cache_hit_tokens
    if reasoning is None:
        reasoning = said.reasoning_tokens
    if prompt is not None and completion is not None and total is not None and total > prompt + completion:
        beyond = total - prompt - completion
        if beyond == inside.audio_tokens:
            prompt += beyond
        elif reasoning in (None, 0) or reasoning == beyond:
            completion += beyond
            reasoning = beyond
    if reasoning is not None and completion is not None:
        reasoning = min(reasoning, completion)
    return Usage(
        input_tokens=whole_input(prompt, cached),
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=completion,
        reasoning_tokens=reasoning,
    )


def _reported(usage: Mapping[str, Any]) -> _Reported:
    try:
        return msgspec.convert(usage, _Reported)
    except (msgspec.ValidationError, UnicodeEncodeError):
        said = counts(usage, _Reported.__struct_fields__)
        inside = counts(mapping(usage.get(_INSIDE)), _Inside.__struct_fields__)
        outside = counts(mapping(usage.get(_OUTSIDE)), _Outside.__struct_fields__)
        return msgspec.convert({**said, _INSIDE: inside, _OUTSIDE: outside}, _Reported)
