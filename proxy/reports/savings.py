"""What the proxy saved, net: tokens that did not go out, and money after every prompt cache that it broke.

    saved = unpruned − paid − summaries

`paid` is the bill by the providers' own counts, `unpruned` what the same calls would have cost by a simulated cache (where
one no longer fits, as much as its window takes), and `summaries` what our own summary calls cost. All may come out
negative, and are then shown so. Calls without price or usage are counted and are in no sum of money. Conversations that
were held out stand beside the treated ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from proxy.ledger.records import Turn


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """Some calls' tokens and US dollars."""

    calls: int
    """The client's calls."""
    priced: int
    """Those of them whose price and usage are known."""
    input_tokens: int
    """Reported."""
    removed_tokens: int
    """Estimated, net of placeholders; nothing of calls that the provider refused."""
    would_remove_tokens: int
    """What would have been removed from calls that were only observed; in no sum of money."""
    cache_read_tokens: int
    output_tokens: int
    paid: float
    """US dollars for the client's calls."""
    unpruned: float
    """What they would have cost without the proxy."""
    too_long: int
    """Calls that without the proxy would have been longer than their model takes: `unpruned` has each as if cut to that."""
    summary_calls: int
    """Our own."""
    summaries: float
    """US dollars for them."""
    saved: float
    """`unpruned − paid − summaries`; negative when the proxy cost more than it saved."""
    saved_percent: float | None
    """Of `unpruned`; None when that is 0."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The bill of one day, model or session."""

    key: str
    """YYYY-MM-DD (UTC), UPSTREAM/MODEL, or a session's id."""
    label: str = ""
    """The client's own name for the session; days and models have none."""
    bill: Bill


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One side of the comparison with conversations that were left alone."""

    sessions: int
    bill: Bill
    paid_per_call: float | None
    """US dollars over priced calls, summaries included; None without any."""
    input_per_call: float | None


class Holdout(msgspec.Struct, frozen=True, kw_only=True):
    """Treated and held-out conversations of the same time, side by side: no simulation in between."""

    treated: Arm
    held_out: Arm


class Savings(msgspec.Struct, frozen=True, kw_only=True):
    """The savings report."""

    since: float
    """Unix time from which calls were looked at."""
    complete: bool
    """False when there are more calls since then than were looked at."""
    total: Bill
    by_day: tuple[Line, ...]
    """Oldest first."""
    by_model: tuple[Line, ...]
    """Most paid first, as by_session."""
    by_session: tuple[Line, ...]
    holdout: Holdout | None
    """None when no conversation was held out (`prune.holdout`)."""


def savings(turns: Iterable[Turn], *, since: float = 0.0, complete: bool = True, most_sessions: int = 100) -> Savings:
    """What these rows come to."""
    rows = list(turns)
    held = {turn.session for turn in rows if turn.skipped == "held_out"}
    return Savings(
        since=since,
        complete=complete,
        total=bill(rows),
        by_day=tuple(sorted(_lines(rows, _day), key=lambda line: line.key)),
        by_model=_by_price(_lines(rows, lambda turn: f"{turn.upstream}/{turn.model}")),
        by_session=_by_price(_lines(rows, lambda turn: turn.session, named=True))[:most_sessions],
        holdout=_holdout(rows, held) if held else None,
    )


def bill(turns: Sequence[Turn]) -> Bill:
    """The sums over some rows."""
    own = [turn for turn in turns if turn.purpose != "summary"]
    made = [turn for turn in turns if turn.purpose == "summary"]
    priced = [(turn.cost, turn.cost_unpruned) for turn in own if turn.cost is not None]
    paid = sum(cost for cost, _ in priced)
    unpruned = sum(cost if without is None else without for cost, without in priced)
    summaries = sum(turn.cost or 0.0 for turn in made)
    saved = unpruned - paid - summaries
    return Bill(
        calls=len(own),
        priced=len(priced),
        input_tokens=sum(turn.usage.input_tokens or 0 for turn in own),
        removed_tokens=sum(turn.spared_tokens for turn in own),
        would_remove_tokens=sum(turn.would_spare_tokens for turn in own),
        cache_read_tokens=sum(turn.usage.cache_read_tokens or 0 for turn in own),
        output_tokens=sum(turn.usage.output_tokens or 0 for turn in own),
        paid=paid,
        unpruned=unpruned,
        too_long=sum(map(_too_long, own)),
        summary_calls=len(made),
        summaries=summaries,
        saved=saved,
        saved_percent=round(100.0 * saved / unpruned, 2) if unpruned else None,
    )


def _too_long(turn: Turn) -> bool:
    """Whether the provider would have refused the request as the client sent it."""
    limits = [limit for limit in (turn.window, turn.max_input) if limit]
    return bool(turn.spared_tokens and limits) and (turn.usage.input_tokens or 0) + turn.spared_tokens > min(limits)


def _lines(turns: Iterable[Turn], key_of: Callable[[Turn], str], *, named: bool = False) -> list[Line]:
    groups: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        groups[key_of(turn)].append(turn)
    return [Line(key=key, label=_label(found) if named else "", bill=bill(found)) for key, found in groups.items()]


def _label(turns: Iterable[Turn]) -> str:
    return next((turn.label for turn in turns if turn.label), "")


def _by_price(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines, key=lambda line: (-line.bill.paid, -line.bill.input_tokens, line.key)))


def _day(turn: Turn) -> str:
    return datetime.fromtimestamp(turn.at, UTC).date().isoformat()


def _holdout(turns: Iterable[Turn], held: set[str]) -> Holdout:
    arms: dict[bool, list[Turn]] = {False: [], True: []}
    for turn in turns:
        arms[turn.session in held].append(turn)
    return Holdout(treated=_arm(arms[False]), held_out=_arm(arms[True]))


def _arm(turns: Sequence[Turn]) -> Arm:
    sums = bill(turns)
    return Arm(
        sessions=len({turn.session for turn in turns}),
        bill=sums,
        paid_per_call=(sums.paid + sums.summaries) / sums.priced if sums.priced else None,
        input_per_call=sums.input_tokens / sums.calls if sums.calls else None,
    )
