"""Anthropic Messages: usage in one normal form.

`input_tokens` leaves cached tokens out here, so the full input is `input + cache_read + cache_creation`. A stream says
it twice (`message_start`, whose output is a placeholder, and `message_delta`, which may carry the output alone or all of
it, corrected), so the raw fields are merged first and added up afterwards.
"""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.fields import count, mapping, objects
from proxy.tokens.usage import NOT_REPORTED, Usage

_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def begun(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a `message_start` without its output, which is a placeholder: nothing has been written yet."""
    usage = mapping(message.get("usage"))
    if "output_tokens" not in usage:
        return message
    return {**message, "usage": {name: value for name, value in usage.items() if name != "output_tokens"}}


def merged(before: Mapping[str, Any], later: object) -> Mapping[str, Any]:
    """The raw usage with every field that a later word reports; the last that is not null wins.

    A later word in which the whole input is 0 says nothing about the input: no prompt is empty.
    """
    new = {name: value for name, value in mapping(later).items() if value is not None}
    if not any(count(new.get(name)) for name in _INPUTS):
        new = {name: value for name, value in new.items() if name not in _INPUTS or name not in before}
    return {**before, **new}


def normal_form(usage: Mapping[str, Any]) -> Usage:
    """Full input and full output of the raw fields."""
    plain, read, written = (count(usage.get(name)) for name in _INPUTS)
    output = count(usage.get("output_tokens"))
    if plain is None and output is None:
        return NOT_REPORTED
    thinking = count(mapping(usage.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(
        input_tokens=None if plain is None else plain + (read or 0) + (written or 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
        hour_write_tokens=count(mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")) or None,
        output_tokens=output,
        reasoning_tokens=thinking if thinking is None or output is None else min(thinking, output),
    )


def context_of(usage: Mapping[str, Any]) -> Usage | None:
    """Usage of the last sampling of the main model, where the provider sampled several times in one call.

    With server tools or compaction the sum, or only the message's own numbers, stand at the top. What the next request
    begins with is what the last iteration of type `message` read and wrote. None where there is no such list.
    """
    found = [item for item in objects(usage.get("iterations")) if item.get("type") == "message"]
    return normal_form(found[-1]) if found else None


def compacted(usage: Mapping[str, Any]) -> bool:
    """Whether the provider compacted the history in this call."""
    return any(item.get("type") == "compaction" for item in objects(usage.get("iterations")))
