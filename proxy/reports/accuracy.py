"""How far the estimates were off, by the providers' own counts.

Two errors stand side by side. That of the whole input is small because most of it is known from the call before; that of
the growth is relative to what really had to be guessed (`Turn.grown`), and is the honest one for the estimator.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.ledger.records import Turn
from proxy.reports.spread import BOUNDS, Spread, spread
from proxy.tokens.treatment import Treatment

_LEAST_GROWTH = 50
"""Tokens. Smaller growth counts as so much: two tokens off of four are nobody's concern."""
_NOTHING: Final[Mapping[tuple[str, str], Treatment]] = MappingProxyType({})


class AccuracyRow(msgspec.Struct, frozen=True, kw_only=True):
    """The estimates for one upstream, model and basis."""

    upstream: str
    model: str
    basis: str
    """anchored | estimated"""
    calls: int
    """All calls of the client's; those without a reported count are in no spread."""
    unreported: int
    """Calls for which the provider reported no input count."""
    total: Spread
    """Error of the whole input, in percent of the reported count."""
    growth: Spread
    """Error in percent of what the input grew by; only anchored calls have one."""
    learned_from: int
    """Samples that corrected the newest of these estimates; over all models the most."""
    reasoning: Treatment | None = None
    """What the provider makes of earlier answers' reasoning, as learned from its counts; None over all models."""


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """The published error."""

    since: float
    """Unix time from which calls were looked at."""
    complete: bool
    """False when there are more calls since then than were looked at."""
    bounds: tuple[float, ...]
    """Upper bounds of the histograms' buckets, in percent; a last bucket is above them."""
    overall: tuple[AccuracyRow, ...]
    """Over all models, one row a basis; upstream and model are empty."""
    rows: tuple[AccuracyRow, ...]
    """Most calls first."""


def accuracy(
    turns: Iterable[Turn],
    *,
    treatments: Mapping[tuple[str, str], Treatment] = _NOTHING,
    since: float = 0.0,
    complete: bool = True,
) -> Accuracy:
    """The errors of these rows. Our own summary calls were not estimated and do not count.

    `treatments`: by upstream and model, what is known about earlier reasoning there.
    """
    groups: dict[tuple[str, str, str], list[Turn]] = defaultdict(list)
    bases: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        if turn.purpose != "summary":
            groups[turn.upstream, turn.model, turn.basis].append(turn)
            bases[turn.basis].append(turn)
    return Accuracy(
        since=since,
        complete=complete,
        bounds=BOUNDS,
        overall=tuple(_row("", "", basis, bases[basis], None) for basis in sorted(bases)),
        rows=tuple(
            _row(*names, found, treatments.get(names[:2], "not known yet"))
            for names, found in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        ),
    )


def growth_error(turn: Turn) -> float | None:
    """Signed error in percent of what the input grew by; None where nothing was reported or anchored."""
    error = turn.error
    return None if error is None or turn.grown is None else 100.0 * error / max(turn.grown, _LEAST_GROWTH)


def _row(upstream: str, model: str, basis: str, turns: list[Turn], reasoning: Treatment | None) -> AccuracyRow:
    errors = [error for turn in turns if (error := turn.error_percent) is not None]
    return AccuracyRow(
        upstream=upstream,
        model=model,
        basis=basis,
        calls=len(turns),
        unreported=len(turns) - len(errors),
        total=spread(errors),
        learned_from=max((turn.learned_from for turn in turns), default=0),
        growth=spread([error for turn in turns if (error := growth_error(turn)) is not None]),
        reasoning=reasoning,
    )
