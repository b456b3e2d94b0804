"""What a conversation has cost so far without us, and what of that we have saved, by the simulated cache.

Kept with each anchor and handed on from call to call. A batch of edits may cost at once no more than the purse holds,
so that no conversation ends dearer than it would have been (see `worth.MAY_LOSE`).
"""

from dataclasses import dataclass

from proxy.pruning.situation import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """Both in plain input tokens."""

    spent: float = 0.0
    """What the input of all calls so far would have cost unpruned."""
    saved: float = 0.0
    """How much less it cost; negative when cache breaks have cost more than the edits brought."""


def after_call(
    purse: Purse, prices: Prices | None, *, sent: int, sent_kept: int, direct: int, direct_kept: int
) -> Purse:
    """The purse behind a call that sent `sent` tokens where the client's own request has `direct`.

    `sent_kept`: tokens in front of the first byte that differs from the previous call's body, 0 when the cache is cold;
    `direct_kept`: the same had nothing ever been edited, that is, the whole previous request.
    """
    would_have_cost = _charged(prices, direct, direct_kept)
    return Purse(
        spent=purse.spent + would_have_cost,
        saved=purse.saved + would_have_cost - _charged(prices, sent, sent_kept),
    )


def _charged(prices: Prices | None, tokens: int, kept: int) -> float:
    if prices is None:
        return tokens
    return prices.read * kept + prices.write * (tokens - kept)
