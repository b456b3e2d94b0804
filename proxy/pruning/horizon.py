"""How many more calls a conversation will make, from how long other conversations were."""

from collections.abc import Iterable

LONGEST = 60
"""Nothing is planned further ahead: later calls may be compacted, forked or never come."""

_PRIOR_WEIGHT = 10


def expected_turns(lengths: Iterable[int], now: int, longest: int = LONGEST) -> float:
    """Expected number of further calls of a conversation that has made `now` calls, at most `longest`.

    `lengths`: calls of finished conversations. Without experience a conversation is expected to last as long again as
    it has lasted (the rule for lifetimes of unknown scale); each longer conversation of the ledger adds its own word,
    and the rule counts as ten of them.
    """
    left = [min(length - now, longest) for length in lengths if length > now]
    prior = min(now, longest)
    return (_PRIOR_WEIGHT * prior + sum(left)) / (_PRIOR_WEIGHT + len(left))
