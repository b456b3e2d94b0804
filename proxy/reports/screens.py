"""The reports on a terminal: made for 80 columns, readable with fewer, and every word is there without colour too."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from proxy.reports.accuracy import Accuracy, AccuracyRow
from proxy.reports.columns import Bar, Columns
from proxy.reports.edits import EditRow, Edits
from proxy.reports.overview import Overview, Row
from proxy.reports.savings import Arm, Bill, Line, Savings
from proxy.reports.sessions import SessionPage
from proxy.reports.words import counted, dollars, percent, signed, signed_percent, tokens

_QUOTED_LINES = 4
_QUOTED_CHARS = 400
_LISTED_DECISIONS = 10
_NAMES = {"system": "System prompt", "tools": "Tools", "messages": "Messages", "reasoning": "  of it reasoning"}


def context_screen(shown: Overview) -> RenderableType:
    """The context display of one conversation."""
    parts: list[RenderableType] = [
        _usage(shown),
        *_bar(shown),
        _about(shown),
        "",
        "[bold]Breakdown[/bold]",
        _rows(shown),
    ]
    parts += ["", "[bold]Calculation basis[/bold]", _basis(shown), "", *_facts(shown)]
    if shown.largest:
        parts += ["", "[bold]Largest tool results[/bold]", _largest(shown)]
    if shown.by_tool:
        parts += ["", "[bold]Tool results by tool[/bold] (as the client sent them)", _by_tool(shown)]
    if shown.edits or shown.decisions:
        counts = ", ".join(f"{count} × {kind}" for kind, count in sorted(shown.edits.items())) or "none in force"
        more = " (the newest decisions; `--edits` shows all)" if len(shown.decisions) > _LISTED_DECISIONS else ""
        parts += [
            "",
            f"[bold]Edits[/bold]: {counts}{more}",
            *(f"  {escape(line)}" for line in shown.decisions[-_LISTED_DECISIONS:]),
        ]
    return Group(*parts)


def _usage(shown: Overview) -> str:
    if shown.window is None:
        return f"[bold]Context usage: {tokens(shown.total)} tokens[/bold] (window unknown)"
    return f"[bold]Context usage: {tokens(shown.total)} / {tokens(shown.window)} tokens ({percent(shown.percent, 0)})[/bold]"


def _bar(shown: Overview) -> Iterator[RenderableType]:
    """Used, not to be used by input (reserved for the answer, or closed to it), and free."""
    if shown.window is not None:
        reserve = sum(row.tokens for row in shown.rows if row.name in ("reserve", "closed"))
        yield Bar(used=shown.total / shown.window, kept=reserve / shown.window)


def _about(shown: Overview) -> str:
    label = f" ({escape(shown.label)})" if shown.label else ""
    return f"session {shown.session}{label}, turn {shown.turn}, {escape(shown.model)} at {escape(shown.upstream)}"


def _rows(shown: Overview) -> Table:
    table = _plain("left", "right", "left")
    for row in shown.rows:
        if row.name == "reasoning" and shown.reasoning_raw not in (0, row.tokens):
            sent = f"({row.source}; the client sent {tokens(shown.reasoning_raw)})"
            table.add_row("  " + _NAMES[row.name], tokens(row.tokens), sent)
        elif row.name in _NAMES and (row.tokens or row.name != "reasoning"):
            table.add_row("  " + _NAMES[row.name], tokens(row.tokens), f"({row.source})")
    table.add_row("  Total", tokens(shown.total), "")
    return table


def _basis(shown: Overview) -> Table:
    basis = shown.basis
    table = _plain("left", "right", "left")
    if basis.kind == "anchored":
        table.add_row("  Last actual input", tokens(basis.last_input), "(reported)")
        table.add_row("  Last output", tokens(basis.last_output), "(reported, as far as it was sent back)")
    table.add_row(
        "  New since then" if basis.kind == "anchored" else "  All messages", tokens(basis.new), "(estimated)"
    )
    if basis.corrections:
        name, of = (
            ("Corrections", "edits, system, tools")
            if basis.kind == "anchored"
            else ("Around them", "system, tools, frame")
        )
        table.add_row(f"  {name}", signed(basis.corrections), f"(estimated: {of})")
    return table


def _facts(shown: Overview) -> Iterator[str]:
    last = shown.last_estimate
    if last is None:
        yield "Last estimate accuracy: n/a (no count was reported)"
    else:
        yield (
            f"Last estimate accuracy: {signed_percent(last.error_percent)} error"
            f" ({signed(last.error)} tokens of {tokens(last.actual)} reported)"
        )
    free = _row(shown, "free")
    reserve = _row(shown, "reserve")
    if free is not None and reserve is not None:
        closed = _row(shown, "closed")
        limit = "input limit" if closed else "window"
        over = "" if free.tokens >= 0 else f": over the {limit}"
        beyond = f", {tokens(closed.tokens)} that no input may fill" if closed else ""
        yield f"Free space: {tokens(free.tokens)} tokens (after {tokens(reserve.tokens)} output reserve{beyond}){over}"
    yield f"Without edits: {tokens(shown.raw_total)} tokens ({tokens(shown.removed_tokens)} removed)"
    if shown.would_remove_tokens:
        yield f"Only observed: {tokens(shown.would_remove_tokens)} tokens would have been removed"
    if shown.next_input is not None:
        yield f"Next request begins with: {tokens(shown.next_input)} tokens (reported input and output)"
    if shown.skipped:
        yield f"Nothing pruned now: {escape(shown.skipped)}"
    if shown.warning:
        yield f"[bold]Warning[/bold]: {escape(shown.warning)}"


def _row(shown: Overview, name: str) -> Row | None:
    return next((row for row in shown.rows if row.name == name), None)


def _largest(shown: Overview) -> Table:
    table = _plain("left", "right", "left")
    for item in shown.largest:
        state = f"message {item.message}" + (f", now a {item.edit}" if item.edit else "")
        table.add_row("  " + escape(item.tool), tokens(item.tokens), state)
    return table


def _by_tool(shown: Overview) -> Table:
    table = _plain("left", "right")
    for one in shown.by_tool[:12]:
        table.add_row("  " + escape(one.tool), tokens(one.tokens))
    return table


def edits_screen(shown: Edits) -> RenderableType:
    """A conversation's edits, the newest last, each with the beginning of what stood there and of what stands there now."""
    if not shown.known:
        return f"session {shown.session}: the store no longer has the plan of turn {shown.turn}"
    if not shown.edits:
        return f"session {shown.session}: nothing was taken out"
    saved = shown.removed_tokens or sum(edit.saved_tokens for edit in shown.edits)
    head = (
        f"[bold]Edits of session {shown.session}[/bold], turn {shown.turn}: {len(shown.edits)}, {signed(-saved)} tokens"
    )
    if shown.observed:
        head += " (only observed: none of them was sent)"
    return Group(head, *(line for edit in shown.edits for line in _edit(edit)))


def _edit(edit: EditRow) -> Iterator[RenderableType]:
    made = "turn n/a" if edit.turn is None else f"turn {edit.turn}"
    yield ""
    yield (
        f"[bold]{edit.number}. {edit.kind}[/bold] {escape(edit.tool)} ({made})"
        f" {tokens(edit.tokens_before)} → {tokens(edit.tokens_after)} tokens: {escape(edit.reason)}"
    )
    before, after = (edit.before or "").splitlines(), (edit.after or "").splitlines()
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    if same:
        yield f"  {'same:':<8}the first {counted(same, 'line')}"
    yield from _quoted("before", before[same:], edit.before_note if edit.before is None else "")
    yield from _quoted("after", after[same:], "nothing stands there now" if edit.after is None else "")


def _quoted(name: str, lines: Sequence[str], note: str) -> Iterator[RenderableType]:
    """The first lines of a text, cut to the width; of control characters only a blank is left."""
    if note:
        yield f"  {name + ':':<8}({escape(note)})"
        return
    for number, line in enumerate(lines[:_QUOTED_LINES] or [""]):
        safe = "".join(char if char.isprintable() else " " for char in line[:_QUOTED_CHARS])
        yield Text(f"  {name + ':' if number == 0 else '':<8}{safe}", no_wrap=True, overflow="ellipsis")
    if len(lines) > _QUOTED_LINES:
        yield f"  {'':<8}… {counted(len(lines) - _QUOTED_LINES, 'more line')}"


def accuracy_screen(shown: Accuracy) -> RenderableType:
    """Errors by upstream, model and basis."""
    if not shown.rows:
        return _nothing(shown.since)
    table = Columns("model", "basis", "calls", "median", "p95", "max", "bias", "growth", first=2)
    for row in (*shown.overall, *shown.rows):
        name = f"{row.upstream}/{row.model}" if row.model else "all"
        table.add_row(escape(name), row.basis, tokens(row.total.calls), *_spread_cells(row))
    notes = ["Error of the estimated input in percent of the provider's count; bias above 0: too high."]
    notes.append("Growth: p95 in percent of what the input grew by, which is all that had to be guessed.")
    unreported = sum(row.unreported for row in shown.overall)
    if unreported:
        notes.append(f"In no figure: {counted(unreported, 'call')} without a reported count.")
    return Group(table, *notes, *_incomplete(shown.complete), *_lessons(shown))


def _lessons(shown: Accuracy) -> Iterator[RenderableType]:
    """What was learned. A table of its own: beside eight columns its words would leave no room for names."""
    known: dict[str, tuple[str, int]] = {}
    for row in shown.rows:
        if row.reasoning is not None:
            name = f"{row.upstream}/{row.model}"
            known[name] = (row.reasoning, max(row.learned_from, known.get(name, ("", 0))[1]))
    if not known:
        return
    table = Columns("model", "earlier reasoning", "calls learned from", first=2)
    for name, (reasoning, samples) in known.items():
        table.add_row(escape(name), reasoning, tokens(samples))
    yield ""
    yield table
    yield "Kept: counts again although not sent. Dropped: does not count although sent."
    yield "As sent: counts where the request carries it, and only there."


def _spread_cells(row: AccuracyRow) -> Sequence[str]:
    total = row.total
    sizes = [percent(value, 2) for value in (total.median, total.p95, total.max)]
    return (*sizes, signed_percent(total.bias, 2), percent(row.growth.p95))


def savings_screen(shown: Savings) -> RenderableType:
    """Money and tokens, net."""
    if not shown.total.calls:
        return _nothing(shown.since)
    parts: list[RenderableType] = [*_headline(shown.total)]
    for title, lines in (("day", shown.by_day), ("model", shown.by_model), ("session", shown.by_session[:15])):
        parts += ["", _bills(title, lines)]
    if shown.holdout is not None:
        parts += ["", "[bold]Held out for comparison[/bold]", _arms(shown.holdout.treated, shown.holdout.held_out)]
    return Group(*parts, *_incomplete(shown.complete))


def _headline(total: Bill) -> Iterator[str]:
    more = "" if total.saved >= 0 or total.too_long else " (the proxy cost more than it saved)"
    yield f"[bold]Saved: {dollars(total.saved)} net ({signed_percent(total.saved_percent)})[/bold]{more}"
    yield f"  would have been paid   {dollars(total.unpruned)}"
    yield f"  paid                   {dollars(total.paid)}"
    yield f"  summary calls          {dollars(total.summaries)} ({counted(total.summary_calls, 'call')})"
    yield f"  tokens removed         {tokens(total.removed_tokens)} of {tokens(total.input_tokens + total.removed_tokens)}"
    if total.too_long:
        yield f"  beyond the window      {tokens(total.too_long)} of {tokens(total.calls)} calls without the proxy: as if cut to it"
    if total.would_remove_tokens:
        yield f"  only observed          {tokens(total.would_remove_tokens)} tokens would have been removed"
    if total.priced < total.calls:
        yield f"  without price or usage {tokens(total.calls - total.priced)} of {tokens(total.calls)} calls: in no sum of money"


def _bills(title: str, lines: Sequence[Line]) -> Columns:
    table = Columns(title, "calls", "removed", "paid", "without", "saved")
    for line in lines:
        bill = line.bill
        money = (dollars(bill.paid + bill.summaries), dollars(bill.unpruned), dollars(bill.saved))
        table.add_row(escape(line.label or line.key), tokens(bill.calls), tokens(bill.removed_tokens), *money)
    return table


def _arms(treated: Arm, held_out: Arm) -> Columns:
    table = Columns("arm", "sessions", "calls", "input a call", "paid a call")
    for name, arm in (("treated", treated), ("held out", held_out)):
        count = None if arm.input_per_call is None else round(arm.input_per_call)
        table.add_row(name, tokens(arm.sessions), tokens(arm.bill.calls), tokens(count), dollars(arm.paid_per_call))
    return table


def sessions_screen(shown: SessionPage) -> RenderableType:
    """The list of conversations."""
    if not shown.sessions:
        return _nothing(0.0)
    table = Columns("session", "model", "calls", "input", "removed", "last (UTC)", first=2)
    for row in shown.sessions:
        name = f"{row.session}\n  {row.label}" if row.label else row.session
        when = datetime.fromtimestamp(row.last_at, UTC).strftime("%m-%d %H:%M")
        counts = (tokens(row.turns), tokens(row.input_tokens), tokens(row.removed_tokens))
        table.add_row(escape(name), escape(row.model), *counts, when)
    return Group(table, *([] if shown.next is None else ["more with --limit"]))


def _nothing(since: float) -> str:
    """Instead of tables of nothing. `since` in Unix seconds; 0 for ever."""
    return "no calls are recorded in that time" if since else "no calls are recorded yet"


def _incomplete(complete: bool) -> list[str]:  # noqa: FBT001  a report's own field
    return [] if complete else ["Only the newest calls were looked at; there are more."]


def _plain(*aligned: Any) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in aligned:
        table.add_column(justify=justify, overflow="fold")
    return table
