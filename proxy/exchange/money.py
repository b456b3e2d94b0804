"""What a call cost, and what it would have cost without us: the saving is net of every cache that pruning broke."""

import msgspec

from proxy.exchange.prepare import Ready
from proxy.ledger.records import Anchor
from proxy.pricing.cache import Simulated, simulate
from proxy.pricing.cost import cost
from proxy.pricing.prices import CacheHabit, Price
from proxy.tokens.usage import NOT_REPORTED, Usage


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
    before = ready.before
    unpruned = usage.input_tokens + ready.removed_tokens
    paid = cost(usage, price)
    # A call from which nothing was taken cost what it cost: no simulation is as true as the bill.
    same = ready.removed_tokens == 0 and (before is None or before.removed_tokens == 0)
    return Money(
        paid=paid,
        unpruned=paid if same else cost(_simulated(ready, usage, habit, unpruned), price),
        warm_tokens=unpruned if unpruned >= habit.min_prefix else 0,
    )


def _simulated(ready: Ready, usage: Usage, habit: CacheHabit, unpruned: int) -> Simulated:
    """What the provider would have reported for the request as the client sent it: `unpruned` tokens of input."""
    before = ready.before
    earlier = before.usage if before is not None and before.usage is not None else NOT_REPORTED
    return simulate(
        habit,
        input_tokens=unpruned,
        shared_tokens=_shared(before),
        warm_tokens=ready.anchor.warm_tokens,
        idle_s=ready.anchor.at - before.at if before is not None else 0.0,
        output_tokens=usage.output_tokens,
        caches=_cached(usage) or _cached(earlier),
        hour=usage.keeps_an_hour or earlier.keeps_an_hour,
    )


def _shared(before: Anchor | None) -> int:
    """The unpruned length of the request before this one: all of it is this one's prefix."""
    return (before.usage.input_tokens or 0) + before.removed_tokens if before and before.usage else 0


def _cached(usage: Usage) -> bool:
    return bool(usage.cache_read_tokens or usage.cache_write_tokens)
