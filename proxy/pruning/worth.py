"""What a batch of edits costs at once and brings later, in plain input tokens.

An edit breaks the prompt cache at the first byte it changes: what stands behind it and was cached is written anew.
With read ratio r, write ratio w, X tokens removed, S' kept behind the first edit and E calls expected:

    cost at once   w·S' − r·(S' + X)          brings later   r·X·E

So the place of the first edit matters as much as the amount. Replacing what stands near the end of the cached part
costs next to nothing; replacing something far in front pays only in a large batch. `best_batch` therefore looks at
every possible first edit and takes the one with the largest gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.pruning.situation import Situation
from proxy.pruning.standing import Standing

MAY_LOSE = 0.008
"""Share of what a conversation has cost so far that may be staked on its going on; with the savings so far, it is the
most that a batch may cost at once. So a conversation that ends right after a batch has lost less than one percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The results from one first edit on, and what replacing them is worth."""

    chosen: tuple[Standing, ...]
    removed: int
    """Estimated tokens that go."""
    gain: float
    """What is expected to be saved in the end, net."""
    affordable: bool
    """What it costs at once is covered by the savings so far and by the share that may be staked."""


def best_batch(
    old: Sequence[tuple[Standing, int]], situation: Situation, *, minimum: float, chars: int
) -> Batch | None:
    """The batch of the largest gain among those that are large enough and affordable.

    `old`: the results that may go, oldest first, each with the tokens that would be left of it. A batch holds all of
    them from its first on. Large enough: it takes out more than `minimum` tokens and at least `chars` characters. The
    best of those that cannot be afforded is returned only when no other is left; None when none is large enough.
    """
    read, write = ratios(situation)
    behind = cached_behind(situation)
    purse = max(0.0, situation.saved + MAY_LOSE * situation.spent)
    best: Batch | None = None
    removed = held = 0
    for position in range(len(old) - 1, -1, -1):
        standing, left = old[position]
        removed += standing.tokens - left
        held += len(standing.text)
        if removed <= minimum or held < chars:
            continue
        before = behind[standing.message]
        cost = write * (before - removed) - read * before
        gain = read * removed * situation.expected_turns - cost
        affordable = cost <= purse
        if best is None or (affordable, gain) > (best.affordable, best.gain):
            chosen = tuple(standing for standing, _ in old[position:])
            best = Batch(chosen=chosen, removed=removed, gain=gain, affordable=affordable)
    return best


def ratios(situation: Situation) -> tuple[float, float]:
    """What already cached and newly cached input costs; the same where nothing is cached (any more)."""
    if situation.prices is None:
        return 1.0, 1.0
    if situation.cold:
        return situation.prices.write, situation.prices.write
    return situation.prices.read, situation.prices.write


def cached_behind(situation: Situation) -> list[int]:
    """For each message the tokens from it to the end of what the previous call had sent, as they stand now."""
    end = _sent_before(situation)
    behind = [0] * (len(situation.messages) + 1)
    for index in range(end - 1, -1, -1):
        behind[index] = behind[index + 1] + situation.message_tokens[index]
    return behind


def _sent_before(situation: Situation) -> int:
    """Index behind the last message that the previous call had sent: what its answer stands behind."""
    end = situation.seen
    while end and situation.messages[end - 1].role == "assistant":
        end -= 1
    return end
