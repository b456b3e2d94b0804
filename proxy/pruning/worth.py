"""What a batch of edits costs at once and brings later, in plain input tokens.

An edit breaks the prompt cache at the first byte it changes: what stands behind it and was cached is written anew.
With read ratio r, write ratio w, X tokens removed, S' kept behind the first edit and E calls expected:

    cost at once   w·S' − r·(S' + X)          brings later   r·X·E

So the place of the first edit matters as much as the amount. Replacing what stands near the end of the cached part
costs next to nothing; replacing something far in front pays only in a large batch. `best_batch` therefore looks at
every possible first edit and takes the one with the largest gain.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from proxy.conversation.edit import Replace, Summarise
from proxy.conversation.fingerprint import index_of
from proxy.pruning.entries import LOOKBACK, Entries
from proxy.pruning.horizon import expected_turns
from proxy.pruning.purse import call_ends, purse
from proxy.pruning.results import Standing
from proxy.pruning.situation import Prices, Situation, sent_before, stays_cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The results from one first edit on, and what replacing them is worth."""

    chosen: tuple[Standing, ...] = ()
    skipped: str = ""
    """Why none was chosen."""


def best_batch(old: Sequence[tuple[Standing, int]], situation: Situation, *, minimum: float, chars: int) -> Batch:
    """The batch of the largest gain among those that are large enough, pay, and cannot end in a loss.

    `old`: the results that may go, oldest first, each with the fewer tokens that would be left of it. A batch holds all of
    them from its first on. Large enough: it takes out more than `minimum` tokens and at least `chars` characters.
    """
    # Mostly they are not, all together: what the cache holds is of no interest then.
    if sum([standing.tokens - left for standing, left in old]) <= minimum:
        return Batch(skipped="batch_below_minimum")
    read, write = ratios(situation)
    doubt = doubtful_share(situation)
    behind = cached_behind(situation)
    turns = turns_left(situation)
    offers: list[tuple[float, float, int]] = []
    large_enough = False
    removed = held = 0
    for position in range(len(old) - 1, -1, -1):
        standing, left = old[position]
        removed += standing.tokens - left
        held += len(standing.text)
        if removed <= minimum or held < chars:
            continue
        large_enough = True
        before = behind(standing.message)
        cost = write * (before - removed) - read * before
        gain = read * removed * turns - cost - in_full(situation, removed) * max(1.0, turns)
        if gain > 0:
            offers.append((gain, cost + doubt * before, position))
    if not offers:
        return Batch(skipped="would_not_pay" if large_enough else "batch_below_minimum")
    stake = stake_of(situation) if any(cost > 0 for _, cost, _ in offers) else 0.0
    affordable = [offer for offer in offers if offer[1] <= stake]
    if not affordable:
        return Batch(skipped="would_risk_a_loss")
    position = max(affordable)[2]
    return Batch(chosen=tuple(standing for standing, _ in old[position:]))


def in_full(situation: Situation, removed: int) -> float:
    """What each later call costs more where so little is left that the cache does not take it.

    Infinite where a call may then cost more than to read what is there now: what is too small for the cache is paid in full,
    again and again, until it has grown to the cache's minimum.
    """
    prices = situation.prices
    if prices is None or stays_cached(situation, removed):
        return 0.0
    if prices.minimum > prices.read * situation.total:
        return math.inf
    return (1 - prices.read) * (situation.total / situation.density - removed)


def ratios(situation: Situation) -> tuple[float, float]:
    """What already cached and newly cached input costs; the same where nothing is cached (any more)."""
    if situation.prices is None:
        return 1.0, 1.0
    if situation.cold:
        return situation.prices.write, situation.prices.write
    return situation.prices.read, situation.prices.write


def doubtful_share(situation: Situation) -> float:
    """What each cached token that an edit loses costs beyond what `ratios` says, should the cache be warm all the same."""
    if situation.prices is None or not (situation.cold and situation.doubtful):
        return 0.0
    return situation.prices.write - situation.prices.read


def stake_of(situation: Situation) -> float:
    """What a batch may cost at once (pruning.purse)."""
    return purse(situation, situation.prices or Prices(read=1.0, write=1.0))


def turns_left(situation: Situation) -> float:
    """Calls that the conversation will probably still make."""
    if situation.expected_turns is not None:
        return situation.expected_turns
    return expected_turns((), sum(1 for _ in call_ends(situation)) + 1)


def cached_behind(situation: Situation) -> Callable[[int], int]:
    """Of a message, by its index: the cached tokens that are lost when it changes, as they stand now.

    That is everything to the end of what the previous call had sent, and, in a cache with breakpoints, what stands in
    front of the message up to the newest entry that is still of use (pruning.entries). Where too little is left in front
    of it for a cache to find, or nothing has a breakpoint there, that is lost too, system text and tools with it.
    """
    end, prices = sent_before(situation), situation.prices
    sent = [*accumulate(situation.message_tokens[:end], initial=0)]
    if prices is None:
        return lambda index: sent[end] - sent[min(index, end)]
    whole = situation.head_tokens + sent[end]
    spare = whole - prices.minimum / situation.density
    entries, now = _entries(situation) if prices.breakpoints else None, len(situation.messages)

    def lost(index: int) -> int:
        if spare < 0:
            return 0
        found = entries.found(index, now) if entries is not None else index
        if entries is not None and not found and not situation.head_kept:
            return whole
        behind = sent[end] - sent[min(found, end)]
        return behind if behind <= spare else whole

    return lost


def _entries(situation: Situation) -> Entries:
    """What the calls so far have left in a cache with breakpoints, as far back as the call at hand looks for it.

    An edit makes worthless only what was there before it, so that calls further back have no say.
    """
    since = len(situation.messages) - LOOKBACK
    late = [
        (edit.decided, edit.at if isinstance(edit, Replace) else edit.first)
        for edit in situation.plan.edits
        if isinstance(edit, (Replace, Summarise)) and edit.decided >= since
    ]
    place = index_of(situation.keys) if late else {}
    changed: dict[int, int] = {}
    for decided, key in late:
        if (at := place.get(key)) is not None:
            changed[decided] = min(changed.get(decided, at), at)
    entries = Entries(situation.messages)
    rewritten = situation.rewritten
    for end in call_ends(situation, since):
        if rewritten and end >= rewritten:
            entries.forget()
            rewritten = 0
        if end in changed:
            entries.changed(changed[end])
        entries.ended(end)
    return entries
