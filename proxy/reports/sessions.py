"""The list of conversations, one conversation's calls, and its edits."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from proxy.conversation.edit import (
    Edit,
    Insert,
    Plan,
    Replace,
    RestoreReasoning,
    StripReasoning,
    Summarise,
    kind_of,
    saved_tokens,
)
from proxy.ledger.records import Turn
from proxy.ledger.store import SessionSummary
from proxy.reports.savings import Bill, bill

NOT_KEPT = "not stored: the original stands in the client's own history"
_NEW = "nothing stood here"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    session: str
    label: str
    """The client's own name for it; may be empty."""
    upstream: str
    model: str
    turns: int
    first_at: float
    """Unix time."""
    last_at: float
    input_tokens: int
    """Reported, summed over turns."""
    removed_tokens: int
    """Estimated, summed over turns."""
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


class EditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One edit that stands in the conversation."""

    kind: str
    """clear | repeat | cap | ansi | collapse | delta | summarise | insert | strip | restore"""
    turn: int | None
    """Number of the call at which it was decided; None when that is not known."""
    tool: str
    reason: str
    at: str
    """Hex key of the message that it is anchored to: of a summary the last one covered, of an insertion the one before."""
    tokens_before: int
    tokens_after: int
    saved_tokens: int
    """Negative for what it adds."""
    after: str | None
    """The text that stands there now; None where nothing does."""
    before: None = None
    before_note: str = NOT_KEPT


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken out of a conversation, and put in."""

    session: str
    turn: int
    """The newest call: its plan is shown."""
    known: bool
    """False when the store no longer has that plan."""
    edits: tuple[EditRow, ...]
    """In the order in which they were decided."""


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
        bill=bill([turn for turn in turns if turn.purpose != "count"]),
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


def edits(turn: Turn, plan: Plan | None) -> Edits:
    """The edits of a call's plan; None: the store has lost it."""
    found: Iterable[Edit] = plan.edits if plan is not None else ()
    return Edits(session=turn.session, turn=turn.turn, known=plan is not None, edits=tuple(map(_edit_row, found)))


def _edit_row(edit: Edit) -> EditRow:
    match edit:
        case Replace():
            counts = (edit.tokens_before, edit.tokens_after)
            return _row(edit, edit.at, counts, edit.text, reason=edit.reason, tool=edit.tool)
        case Summarise():
            return _row(edit, edit.last, (edit.tokens_before, edit.tokens_after), edit.text, reason=edit.reason)
        case Insert():
            counts = (0, edit.tokens_after)
            return _row(edit, edit.after, counts, edit.text, reason="a queued user message", note=_NEW)
        case RestoreReasoning():
            counts = (0, edit.tokens_after)
            return _row(edit, edit.at, counts, None, reason="the provider demands this reasoning back", note=_NEW)
        case StripReasoning():
            return _row(edit, edit.at, (edit.tokens_before, 0), None, reason="reasoning.strip")


def _row(
    edit: Edit,
    at: bytes,
    counts: tuple[int, int],
    after: str | None,
    *,
    reason: str,
    tool: str = "",
    note: str = NOT_KEPT,
) -> EditRow:
    return EditRow(
        kind=kind_of(edit),
        turn=edit.turn or None,
        tool=tool,
        reason=reason,
        at=at.hex(),
        tokens_before=counts[0],
        tokens_after=counts[1],
        saved_tokens=saved_tokens(edit),
        after=after,
        before_note=note,
    )
