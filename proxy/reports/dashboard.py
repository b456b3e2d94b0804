"""What the dashboard shows that no other report computes: savings over time, and how the upstreams are doing."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, Literal

import msgspec

from proxy.ledger.records import Turn
from proxy.reports.savings import Bill, bill

STEPS_S: Final = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)
"""Widths of the steps that time is cut into: those that people read without calculating."""
MOST_STEPS: Final = 60

State = Literal["good", "failing"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls that began in one step of time came to."""

    at: float
    """Unix time of its beginning; the step's width is the report's `step_s`."""
    bill: Bill
    saved_so_far: float
    """US dollars, net, since the first step; negative when the proxy has cost more than it saved."""


class UpstreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream's calls."""

    upstream: str
    state: State
    """By the newest call."""
    calls: int
    """The client's and our own."""
    outcomes: dict[str, int]
    last_at: float
    """Unix time."""
    last_outcome: str
    last_status: int | None
    head_ms: float | None
    """Median from sending to the head of the answer; None when no answer came."""
    overhead_ms: float | None
    """Median of the proxy's own time."""
    failed_open: int
    """Calls that went on without a stage of ours that had failed."""


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """Savings over time and upstreams."""

    since: float
    """Unix time from which calls were looked at."""
    complete: bool
    """False when there are more calls since then than were looked at."""
    step_s: int
    """Width of a step."""
    steps: tuple[Step, ...]
    """Oldest first; steps without a call are left out."""
    upstreams: tuple[UpstreamRow, ...]
    """Those that were called, most calls first."""
    addresses: int
    """Upstreams that have an address."""
    store: str
    """The kind of store: sqlite, redis or memory."""
    store_healthy: bool
    """False while memory stands in for it."""
    store_failures: int
    """Failed calls to it since the start of this process."""
    open_calls: int
    """Modelled calls under way in this process."""
    version: str


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What only the running process knows."""

    addresses: int
    store: str
    store_healthy: bool
    store_failures: int
    open_calls: int
    version: str


def dashboard(turns: Iterable[Turn], machine: Machine, *, since: float = 0.0, complete: bool = True) -> Dashboard:
    """The report over these rows."""
    rows = sorted(turns, key=lambda turn: turn.at)
    step_s = width(rows[-1].at - rows[0].at) if rows else STEPS_S[0]
    return Dashboard(
        since=since,
        complete=complete,
        step_s=step_s,
        steps=_steps(rows, step_s),
        upstreams=_upstreams(rows),
        **msgspec.structs.asdict(machine),
    )


def width(span_s: float) -> int:
    """The narrowest step of which MOST_STEPS cover the span, or the widest there is."""
    at = bisect_left(STEPS_S, span_s / MOST_STEPS)
    return STEPS_S[min(at, len(STEPS_S) - 1)]


def _steps(rows: Sequence[Turn], step_s: int) -> tuple[Step, ...]:
    groups: dict[int, list[Turn]] = defaultdict(list)
    for turn in rows:
        groups[int(turn.at // step_s)].append(turn)
    steps: list[Step] = []
    so_far = 0.0
    for number in sorted(groups):
        sums = bill(groups[number])
        so_far += sums.saved
        steps.append(Step(at=float(number * step_s), bill=sums, saved_so_far=so_far))
    return tuple(steps)


def _upstreams(rows: Iterable[Turn]) -> tuple[UpstreamRow, ...]:
    groups: dict[str, list[Turn]] = defaultdict(list)
    for turn in rows:
        groups[turn.upstream].append(turn)
    found = [_upstream(name, calls) for name, calls in groups.items()]
    return tuple(sorted(found, key=lambda row: (-row.calls, row.upstream)))


def _upstream(name: str, calls: Sequence[Turn]) -> UpstreamRow:
    last = calls[-1]
    outcomes: Mapping[str, int] = Counter(turn.outcome for turn in calls)
    heads = [turn.upstream_ms for turn in calls if turn.upstream_ms]
    own = [turn.overhead_ms for turn in calls if turn.overhead_ms]
    return UpstreamRow(
        upstream=name,
        state="failing" if is_failure(last) else "good",
        calls=len(calls),
        outcomes=dict(outcomes),
        last_at=last.at,
        last_outcome=last.outcome,
        last_status=last.status or None,
        head_ms=round(median(heads), 3) if heads else None,
        overhead_ms=round(median(own), 3) if own else None,
        failed_open=sum(bool(turn.failed_open) for turn in calls),
    )


def is_failure(turn: Turn) -> bool:
    """Whether the upstream is to blame: cut off, overloaded or broken. What it rightly refuses is the caller's fault."""
    if turn.outcome == "truncated":
        return True
    return turn.outcome == "error" and not (400 <= turn.status < 500 and turn.status not in (408, 429))
