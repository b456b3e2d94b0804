"""A simulated prompt cache: what the provider would have read and written had nothing been pruned.

The unpruned conversation only grows at its end, so one number describes its cache: the length of the warm prefix. A call
reads what is warm of the prefix that it shares with the call before, writes the rest, and leaves everything warm.
"""

from dataclasses import dataclass

from proxy.pricing.prices import CacheHabit, for_an_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """How one call's input would have been charged. Fulfils `pricing.cost.Counts`."""

    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    hour_write_tokens: int | None
    output_tokens: int | None
    warm_tokens: int
    """Length of the prefix that is warm after the call; to be stored with its anchor."""


def simulate(
    habit: CacheHabit,
    *,
    input_tokens: int,
    shared_tokens: int,
    warm_tokens: int,
    idle_s: float,
    output_tokens: int | None,
    caches: bool = True,
    hour: bool = False,
    written_share: float = 1.0,
) -> Simulated:
    """The charge for a call of `input_tokens` that begins with `shared_tokens` of the call before it.

    `warm_tokens`: what that call left warm, `idle_s` ago. `caches` False: this client or provider uses no cache, as its
    real calls show. `hour`: it has its entries live for an hour. `written_share`: of what is
    not read, what stands in front of the last breakpoint; the rest is not kept. Writing counts as written only where it has a price of its own.
    """
    if not caches or input_tokens < habit.min_prefix:
        return Simulated(
            input_tokens=input_tokens,
            cache_read_tokens=0,
            cache_write_tokens=0,
            hour_write_tokens=None,
            output_tokens=output_tokens,
            warm_tokens=0,
        )
    habit = for_an_hour(habit) if hour else habit
    read = min(warm_tokens, shared_tokens, input_tokens) if idle_s <= habit.ttl_s else 0
    read -= read % habit.step
    if read < habit.min_prefix:
        read = 0
    kept = round(written_share * (input_tokens - read))
    written = kept if habit.write_ratio != 1.0 else 0
    return Simulated(
        input_tokens=input_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        hour_write_tokens=written if hour else None,
        output_tokens=output_tokens,
        warm_tokens=read + kept,
    )
