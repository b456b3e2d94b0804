"""What a call cost, and what it would have cost without us: the saving is net of every cache that pruning broke."""

import msgspec

from proxy.conversation.edit import Summarise, first_of
from proxy.exchange.measure import standing_tokens
from proxy.exchange.ready import Ready
from proxy.exchange.warmth import other_head
from proxy.ledger.records import Anchor
from proxy.pricing.cache import Simulated, simulate
from proxy.pricing.cost import cost
from proxy.pricing.prices import CacheHabit, Price
from proxy.tokens.context import ContextSize
from proxy.tokens.usage import NOT_REPORTED, Usage

_SURELY_CACHED = 2
"""Times a cache's minimum, which is not known for certain: from there on nothing is too small for it."""

_HEAD_DOUBT = 1.1
"""Times the head as we weigh it, which what was read must reach before any of the history was."""


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars."""

    paid: float | None
    """None when model or usage is unknown."""
    unpruned: float | None
    warm_tokens: int
    """Length of the prefix that the simulated cache holds after this call."""


def money_of(ready: Ready, usage: Usage, price: Price | None, habit: CacheHabit) -> Money:
    """Both bills of a call."""
    if not usage.input_tokens:
        return Money(paid=None, unpruned=None, warm_tokens=ready.anchor.warm_tokens)
    before, removed, unpruned = ready.before, ready.removed_tokens, usage.input_tokens
    if removed:
        unpruned = max(unpruned, _possible(unpruned + removed, ready.context))
    paid = cost(usage, price)
    # A call from which nothing was taken cost what it cost: no simulation is as true as the bill.
    same = removed == 0 and (before is None or before.removed_tokens == 0) and not ready.marked
    return Money(
        paid=paid,
        unpruned=paid if same else cost(_simulated(ready, usage, habit, unpruned), price),
        warm_tokens=_warm(usage, habit, unpruned) if unpruned >= habit.min_prefix else 0,
    )


def _possible(tokens: int, context: ContextSize) -> int:
    """Input of that size, or as much as the provider takes: what it would have refused would have cost nothing."""
    limits = [limit for limit in (context.window, context.max_input) if limit]
    return min([tokens, *limits])


def _simulated(ready: Ready, usage: Usage, habit: CacheHabit, unpruned: int) -> Simulated:
    """What the provider would have reported for the request as the client sent it: `unpruned` tokens of input."""
    before = ready.before
    earlier = before.usage if before is not None and before.usage is not None else NOT_REPORTED
    read = _observed(ready, usage, earlier, habit)
    shared, warm, idle_s = (read, read, 0.0) if read is not None else _expected(ready, usage, habit)
    return simulate(
        habit,
        input_tokens=unpruned,
        shared_tokens=shared,
        warm_tokens=warm,
        idle_s=idle_s,
        output_tokens=usage.output_tokens,
        caches=not ready.marked and (_cached(usage) or _cached(earlier)),
        hour=usage.keeps_an_hour or earlier.keeps_an_hour,
        written_share=_written_share(usage, habit),
    )


def _warm(usage: Usage, habit: CacheHabit, unpruned: int) -> int:
    """Length of the prefix that the cache would hold after the unpruned call."""
    read = min(unpruned, usage.cache_read_tokens or 0)
    return read + round(_written_share(usage, habit) * (unpruned - read))


def _written_share(usage: Usage, habit: CacheHabit) -> float:
    """Of the tokens that were not read, those in front of the client's last breakpoint. Some set one behind the head only."""
    rest = (usage.input_tokens or 0) - (usage.cache_read_tokens or 0)
    if habit.write_ratio <= 1 or usage.cache_write_tokens is None or rest <= 0 or not _cached(usage):
        return 1.0
    return min(1.0, usage.cache_write_tokens / rest)


def _expected(ready: Ready, usage: Usage, habit: CacheHabit) -> tuple[int, int, float]:
    """Tokens shared with the call before, those of it that were warm, and for how many seconds nobody had asked for them."""
    before = ready.before
    idle_s = ready.anchor.at - before.at if before is not None else 0.0
    shared = _shared(before)
    if before is not None and other_head(before, ready.anchor.system_digest, ready.anchor.tools_digest):
        # Both requests have the same head, and what is new in it stands in front of the history.
        read = usage.cache_read_tokens or 0
        shared = shared if _was_warm(ready, usage) else min(read, ready.weighed.system + ready.weighed.tools)
    return shared, ready.anchor.warm_tokens, 0.0 if idle_s > habit.ttl_s and _was_warm(ready, usage) else idle_s


def _observed(ready: Ready, usage: Usage, earlier: Usage, habit: CacheHabit) -> int | None:
    """What would have been read unpruned, by what was read: the cache knows best what of a history it has lost, and why.

    None where that says nothing: an edit of what had been sent has broken the cache, or has left too little for it.
    """
    read = usage.cache_read_tokens
    if read is None and _cached(earlier):
        # Gemini leaves out what is 0.
        read = 0
    if read is None or not _is_telling(ready, read, habit):
        return None
    if not read and (earlier.input_tokens or 0) < _SURELY_CACHED * habit.min_prefix:
        return 0 if ready.before is None else None
    if ready.before is not None and read >= (earlier.input_tokens or 0) - habit.step:
        # More than that where a client ends each request with something for this moment only, in the same message as a result.
        return _shared(ready.before) + max(0, read - (earlier.input_tokens or 0))
    return read + _removed_before(ready, usage, read)


def _is_telling(ready: Ready, read: int, habit: CacheHabit) -> bool:
    """Whether no new edit explains that no more was read: none changed what had been sent, or only what stands far behind.

    A cache with breakpoints has entries in few places only, and the last of use may be far in front of an edit.
    """
    if not ready.inputs.edited and not any(isinstance(edit, Summarise) for edit in ready.new_edits):
        return True
    unchanged = _unchanged(ready)
    return habit.write_ratio <= 1 and unchanged >= _SURELY_CACHED * habit.min_prefix and 2 * read < unchanged


def _unchanged(ready: Ready) -> int:
    """Tokens in front of the first new edit."""
    weighed = ready.weighed
    changed = [weighed.index[at] for edit in ready.new_edits if (at := first_of(edit)) in weighed.index]
    sent = standing_tokens(weighed, ready.sent_plan)[: min(changed, default=len(weighed.totals))]
    return weighed.system + weighed.tools + sum(sent)


def _removed_before(ready: Ready, usage: Usage, read: int) -> int:
    """Tokens that the plan took out of what stands within the first `read` tokens."""
    weighed = ready.weighed
    sent = standing_tokens(weighed, ready.sent_plan)
    head = weighed.system + weighed.tools
    density = (usage.input_tokens or 0) / max(1, head + sum(sent))
    room, removed = read - _HEAD_DOUBT * density * head, 0
    for whole, left in zip(weighed.totals, sent, strict=True):
        room -= density * left
        if room < 0:
            break
        removed += whole - left
    return max(0, round(density * removed))


def _was_warm(ready: Ready, usage: Usage) -> bool:
    """Whether the cache had what stands in front of the first new edit, or most of it: then it was not gone, however old.

    System text alone may be there from other conversations.
    """
    if not usage.cache_read_tokens:
        return False
    head = ready.weighed.system + ready.weighed.tools
    return 2 * (usage.cache_read_tokens - head) > _unchanged(ready) - head


def _shared(before: Anchor | None) -> int:
    """The unpruned length of the request before this one: all of it is this one's prefix."""
    return (before.usage.input_tokens or 0) + before.removed_tokens if before and before.usage else 0


def _cached(usage: Usage) -> bool:
    return bool(usage.cache_read_tokens or usage.cache_write_tokens)
