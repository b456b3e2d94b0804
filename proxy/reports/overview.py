"""The context display: what stood in a conversation's newest request, by the very number that decisions are taken from.

    system + tools + messages         == total       reasoning is a part of the messages
    total + reserve + closed + free   == window      free is negative where the request is over

Closed, only there where a provider limits the input alone (gpt-5: 272,000 of 400,000), is what neither input nor reserve
may fill.

Rows say how they are known: system and tools are estimated, messages are what is left of the total (back-calculated).
The percentage is of the whole window, the reserve not counted as used.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from proxy.ledger.records import Item, Turn

Source = Literal["estimated", "back-calculated", "configured", "remaining"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the breakdown."""

    name: Literal["system", "tools", "messages", "reasoning", "reserve", "closed", "free"]
    tokens: int
    source: Source
    part_of: str = ""
    """The row that this one is a part of; such rows are not added."""
    percent: float | None = None
    """Of the window; None when that is unknown."""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """How the total was calculated: `last_input + last_output + new + corrections == total`."""

    kind: str
    """anchored (on a reported count) | estimated"""
    last_input: int | None
    """Reported by the provider for the call before; None without one."""
    last_output: int | None
    """Reported, less what the client did not send back."""
    new: int
    """Estimate of the messages since then; all messages, without an earlier call."""
    corrections: int
    """Signed estimate: newer edits, changed system text and tools."""


class LastEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """How far the newest estimate that was checked was off."""

    turn: int
    estimated: int
    actual: int
    error: int
    """Estimated minus actual."""
    error_percent: float
    """Signed, of the actual count."""


class ToolTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one tool."""

    tool: str
    tokens: int
    """Estimate, as the client sent them."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation's context, as of its newest call."""

    session: str
    label: str
    turn: int
    at: float
    """Unix time of the call's start."""
    upstream: str
    model: str
    outcome: str
    total: int
    """Input of the request that was sent: the number that pruning and compaction decide by."""
    raw_total: int
    """What it would have been without edits: the client's own history."""
    removed_tokens: int
    would_remove_tokens: int
    """What would have been taken out, had the call not only been observed."""
    window: int | None
    """The model's context window; None when nobody knows it."""
    percent: float | None
    """`total` of `window`."""
    rows: tuple[Row, ...]
    basis: Basis
    reported: int | None
    """The provider's count for this very request; None while it runs or when it reported none."""
    next_input: int | None
    """What the next request begins with: reported input and output; None when they were not reported."""
    last_estimate: LastEstimate | None
    by_tool: tuple[ToolTokens, ...]
    """Largest first."""
    largest: tuple[Item, ...]
    edits: dict[str, int]
    """Edits that stand in the request, by kind."""
    decisions: tuple[str, ...]
    """Of the newest calls, newest last: number of the call, kind, tool, tokens, reason."""
    skipped: str
    """Why nothing was pruned although something could have been."""
    warning: str
    reasoning_raw: int = 0
    """Reasoning as the client sent it; the row `reasoning` is what went out of it, or was put in again."""
    dropped_reasoning: int = 0
    """Reasoning blocks that the provider says it dropped from the request."""


def overview(turns: Sequence[Turn]) -> Overview | None:
    """The display of one conversation from its rows, newest first; None when none of them is a call of the client's."""
    own = [turn for turn in turns if turn.purpose == "main"] or [turn for turn in turns if turn.purpose == "utility"]
    if not own:
        return None
    now = own[0]
    reported = now.usage.input_tokens or None
    return Overview(
        session=now.session,
        label=now.label,
        turn=now.turn,
        at=now.at,
        upstream=now.upstream,
        model=now.model,
        outcome=now.outcome,
        total=now.estimated,
        raw_total=now.estimated + now.removed_tokens,
        removed_tokens=now.removed_tokens,
        would_remove_tokens=now.would_remove_tokens,
        window=now.window,
        percent=_percent(now.estimated, now.window),
        rows=_rows(now),
        basis=_basis(now),
        reported=reported,
        next_input=reported + now.usage.output_tokens if reported and now.usage.output_tokens else None,
        last_estimate=next(filter(None, map(_checked, own)), None),
        by_tool=tuple(
            ToolTokens(tool=tool, tokens=tokens)
            for tool, tokens in sorted(now.by_tool.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        largest=now.largest,
        edits=now.edits,
        decisions=tuple(f"turn {turn.turn}: {line}" for turn in reversed(own) for line in turn.decisions)[-50:],
        skipped=now.skipped,
        warning=now.warning,
        reasoning_raw=now.reasoning_raw,
        dropped_reasoning=now.dropped_reasoning,
    )


def _rows(now: Turn) -> tuple[Row, ...]:
    messages = now.estimated - now.system_tokens - now.tools_tokens

    def row(name: str, tokens: int, source: Source, part_of: str = "") -> Row:
        percent = _percent(tokens, now.window)
        return msgspec.convert(
            {"name": name, "tokens": tokens, "source": source, "part_of": part_of, "percent": percent}, Row
        )

    rows = [
        row("system", now.system_tokens, "estimated"),
        row("tools", now.tools_tokens, "estimated"),
        row("messages", messages, "back-calculated" if now.basis == "anchored" else "estimated"),
        row("reasoning", now.reasoning_tokens, "estimated", "messages"),
        row("reserve", now.reserve, "configured"),
    ]
    if now.window is not None:
        closed = max(0, now.window - now.reserve - now.max_input) if now.max_input is not None else 0
        if closed:
            rows.append(row("closed", closed, "configured"))
        rows.append(row("free", now.window - now.estimated - now.reserve - closed, "remaining"))
    return tuple(rows)


def _basis(now: Turn) -> Basis:
    anchored = now.basis == "anchored"
    return Basis(
        kind=now.basis,
        last_input=now.last_input if anchored else None,
        last_output=now.last_output if anchored else None,
        new=now.new_tokens,
        corrections=now.corrections,
    )


def _checked(turn: Turn) -> LastEstimate | None:
    actual, error, percent = turn.usage.input_tokens, turn.error, turn.error_percent
    if not actual or error is None or percent is None:
        return None
    return LastEstimate(turn=turn.turn, estimated=turn.estimated, actual=actual, error=error, error_percent=percent)


def _percent(tokens: int, window: int | None) -> float | None:
    return round(100.0 * tokens / window, 2) if window else None
