"""A result whose text still stands whole in the body becomes a reference to it. Lossless.

The *newer* copy is replaced: replacing the older one would break the prompt cache behind it.
"""

from collections.abc import Sequence

from proxy.conversation.edit import Replace
from proxy.conversation.model import ToolCall
from proxy.pruning.situation import Situation
from proxy.pruning.standing import Standing

_ARGUMENTS_SHOWN = 120


def repeats(fresh: Standing, results: Sequence[Standing], situation: Situation) -> Replace | None:
    """The reference for one unseen result, or None where nothing equal stands whole before it."""
    for earlier in results:
        if (earlier.message, earlier.part) >= (fresh.message, fresh.part):
            return None
        if earlier.edit is None and not earlier.broken and earlier.result.text == fresh.result.text:
            break
    else:
        return None
    if earlier.result.media:
        return None
    text = _reference(earlier, fresh.result.text)
    return Replace(
        at=situation.keys[fresh.message],
        part=fresh.part,
        kind="repeat",
        text=text,
        reason="the same text stands in an earlier result",
        tool=fresh.tool,
        tokens_before=fresh.tokens,
        tokens_after=situation.count(text),
        of=situation.keys[earlier.message],
        of_part=earlier.part,
    )


def _reference(earlier: Standing, text: str) -> str:
    return f"[Exactly the same output ({len(text):,} characters) as {_named(earlier.call)} gave above.]"


def _named(call: ToolCall | None) -> str:
    if call is None:
        return "an earlier call"
    arguments = call.arguments
    if len(arguments) > _ARGUMENTS_SHOWN:
        arguments = arguments[:_ARGUMENTS_SHOWN] + "…"
    return f"the earlier call {call.name}({arguments})"
