"""The list of conversations, and one conversation's calls."""

from collections.abc import Mapping, Sequence

import msgspec

from proxy.ledger.records import Turn
from proxy.ledger.store import SessionSummary
from proxy.reports.savings import Bill, bill


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    session: str
    label: str
    """The client's own name for it; may be empty."""
    upstream: str
    model: str
    turns: int
    """The client's calls, repeated ones included; our own summary calls are none."""
    first_at: float
    """Unix time."""
    last_at: float
    input_tokens: int
    """Reported, summed over these calls."""
    removed_tokens: int
    """Estimated, summed over those of these calls that the provider did not refuse."""
    queued: int = 0
    """User messages that wait for its next call."""
    mode: str = ""
    """Its own mode (off, observe, prune); empty: the proxy's."""


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some sessions, newest call first."""

    sessions: tuple[SessionRow, ...]
    offset: int
    next: int | None
    """The offset of the next page; None at the end."""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call."""

    turn: int
    """0 for our own summary calls."""
    at: float
    """Unix time of its start."""
    upstream: str
    model: str
    purpose: str
    """main | utility | summary"""
    outcome: str
    status: int
    basis: str
    estimated: int
    actual: int | None
    error: int | None
    error_percent: float | None
    cached_tokens: int | None
    output_tokens: int | None
    removed_tokens: int
    would_remove_tokens: int
    """While observing: what would have been taken out."""
    window: int | None
    edits: dict[str, int]
    new_edits: dict[str, int]
    decisions: tuple[str, ...]
    skipped: str
    failed_open: str
    paid: float | None
    """US dollars."""
    unpruned: float | None
    overhead_ms: float
    upstream_ms: float


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation."""

    session: str
    label: str
    mode: str
    """Its own mode; empty: the proxy's."""
    queued: int
    bill: Bill
    """Of all its calls, our summary calls for it included: the line of the savings report."""
    turns: tuple[TurnRow, ...]
    """Newest first."""
    next: float | None
    """`before` of the next page; None at the end."""


def named(found: Sequence[SessionSummary], text: str) -> list[SessionSummary]:
    """Those that have the text, in capitals or not, in their id, their client's name for them, their model or their upstream."""
    wanted = text.casefold()
    return [one for one in found if wanted in f"{one.session}\n{one.label}\n{one.model}\n{one.upstream}".casefold()]


def page(
    found: Sequence[SessionSummary], *, offset: int, limit: int, queued: Mapping[str, int], modes: Mapping[str, str]
) -> SessionPage:
    """Lines `offset` to `offset + limit` of the newest sessions; `found` has one more where there are more."""
    rows = found[offset : offset + limit]
    return SessionPage(
        sessions=tuple(
            SessionRow(
                **{name: getattr(one, name) for name in SessionSummary.__struct_fields__},
                queued=queued.get(one.session, 0),
                mode=modes.get(one.session, ""),
            )
            for one in rows
        ),
        offset=offset,
        next=offset + limit if len(found) > offset + limit else None,
    )


def detail(
    session: str, turns: Sequence[Turn], *, limit: int, before: float | None = None, queued: int, mode: str
) -> SessionDetail:
    """One conversation from all its rows, newest first; shown are `limit` of those that began `before` (Unix time)."""
    asked = [turn for turn in turns if before is None or turn.at < before]
    shown = asked[:limit]
    return SessionDetail(
        session=session,
        label=next((turn.label for turn in turns if turn.label), ""),
        mode=mode,
        queued=queued,
        bill=bill(turns),
        turns=tuple(map(turn_row, shown)),
        next=shown[-1].at if len(asked) > limit else None,
    )


def turn_row(turn: Turn) -> TurnRow:
    """One call's line."""
    same = {name for name in TurnRow.__struct_fields__ if name in Turn.__struct_fields__}
    percent = turn.error_percent
    return TurnRow(
        **{name: getattr(turn, name) for name in same},
        actual=turn.usage.input_tokens or None,
        error=turn.error,
        error_percent=None if percent is None else round(percent, 3),
        cached_tokens=turn.usage.cache_read_tokens,
        output_tokens=turn.usage.output_tokens,
        paid=turn.cost,
        unpruned=turn.cost_unpruned,
    )
