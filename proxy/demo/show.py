"""`pruning-proxy demo`: a recorded agent session through the real proxy, beside the same session without it.

No key, no network. Every figure is one that the loopback provider counted, or the proxy's own estimate where it says so.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from proxy.demo.outcome import Outcome, as_json, outcome_of
from proxy.demo.race import MODEL, WINDOW, Step, price, race
from proxy.demo.sessions import Session, load, shipped
from proxy.ledger.records import Turn
from proxy.reports.words import counted, signed_percent
from proxy.server.events import configure
from proxy.settings.values import Profile
from proxy.wire.body import dumps

FAILED = 1
_BAR = 22
_ROOM = 76
"""Columns that the show takes with all that belongs to it."""
_MILLION = 1_000_000


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--session", type=Path, metavar="FILE", help="a recorded session of your own (JSON, chat format)"
    )
    parser.add_argument("--profile", choices=("gentle", "bold"), default="gentle", help="presets of the proxy")
    parser.add_argument("--turns", type=_count, metavar="N", help="play only the first N turns")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the show")


def run(options: argparse.Namespace) -> int:
    """Play the session; 0, or 1 when an answer was lost or changed. Raises SettingsError for a file that is no session."""
    session = load(options.session) if options.session else shipped()
    configure(form="json", level="error")
    return asyncio.run(_show(session, options.profile, options.turns, as_data=options.json))


async def _show(session: Session, profile: Profile, most: int | None, *, as_data: bool) -> int:
    console = Console(highlight=False, quiet=as_data)
    steps: list[Step] = []
    started = time.perf_counter()
    _say_opening(console, session, profile)
    largest = 0
    async with race(session, profile) as both:
        async for step in both.steps(most):
            before = steps[-1] if steps else None
            steps.append(step)
            largest = max(largest, step.direct.input_tokens, step.pruned.input_tokens)
            _say_turn(console, step, before, ascii_only=not console.encoding.startswith("utf"))
    rows = list(both.rows)
    result = outcome_of(steps, rows, *both.bills())
    seconds = time.perf_counter() - started
    if as_data:
        head = {"session": session.name, "model": MODEL, "window": WINDOW, "profile": profile}
        told = {**head, "seconds": round(seconds, 2), "turns": [as_json(step) for step in steps]}
        sys.stdout.write(dumps({**told, "outcome": msgspec.to_builtins(result)}).decode() + "\n")
    _say_end(console, result, rows, seconds)
    wrong = trouble(result)
    if wrong:
        sys.stderr.write(f"pruning-proxy: demo: {wrong}\n")
    return FAILED if wrong else 0


def _say_opening(console: Console, session: Session, profile: Profile) -> None:
    turns = sum(1 for _ in session.turns())
    kind = "stitched from several real sessions" if session.stitched else "a real session"
    console.print(
        f"[bold]{session.name}[/]: {kind} of {session.agent or 'an agent'}, {counted(turns, 'turn')}", soft_wrap=True
    )
    if session.source:
        console.print(f"from {session.source} ({session.licence})", soft_wrap=True)
    console.print(
        f"Each turn is sent twice: straight to a loopback provider, and through the proxy "
        f"(profile {profile}) to another. Model {MODEL}, window {WINDOW:,} tokens, prompt cache "
        "as the real one. The provider counts with a vocabulary that the proxy does not "
        "know. No key, no network.\n"
    )
    bar = f"{'bar: share of the window':<{_BAR}} " if _has_room(console) else ""
    console.print(f"[bold]{'turn':>4} {'client has':>10} {'proxy sent':>10}  {bar}{'estimate':>9}  cached[/]")


def _has_room(console: Console) -> bool:
    """For bars and for columns side by side."""
    return console.width >= _ROOM


def _say_turn(console: Console, step: Step, before: Step | None, *, ascii_only: bool) -> None:
    direct, pruned = step.direct, step.pruned
    fewer = _newly_gone(step, before) if before else _difference(step)
    if fewer > 0:
        now = "compacted" if pruned.compacted and not (before and before.pruned.compacted) else "pruned"
        console.print(f"     {now} now: {fewer:,} tokens fewer from here on", style="yellow")
    line = Text(f"{step.number:>4} ")
    line.append(f"{direct.input_tokens:>10,} " if direct.said else f"{'refused':>10} ")
    line.append(f"{pruned.input_tokens:>10,}  " if pruned.said else f"{'refused':>10}  ", style="bold")
    if _has_room(console):
        line.append_text(_bar(direct.input_tokens or WINDOW, pruned.input_tokens, ascii_only=ascii_only)).append(" ")
    error = pruned.error_percent
    line.append(f"{'' if error is None else signed_percent(error, 2):>9}" + ("  " if pruned.anchored else " *"))
    if pruned.input_tokens:
        line.append(f"{100 * pruned.cached_tokens / pruned.input_tokens:5.0f} %")
    console.print(line)


def _newly_gone(step: Step, before: Step) -> int:
    """Tokens that this turn is shorter by than the one before was, as both providers counted.

    The proxy's own estimate of what it took out moves by itself when the proxy learns: it stands in only where a refused
    turn has no count.
    """
    if all(heard.said is not None for turn in (before, step) for heard in (turn.direct, turn.pruned)):
        return _difference(step) - _difference(before)
    return step.pruned.removed_tokens - before.pruned.removed_tokens


def _difference(step: Step) -> int:
    return step.direct.input_tokens - step.pruned.input_tokens


def _bar(has: int, sent: int, *, ascii_only: bool) -> Text:
    full, gone, rest = ("#", "-", " ") if ascii_only else ("█", "░", " ")
    whole = min(_BAR, round(_BAR * max(has, sent) / WINDOW))
    kept = min(whole, round(_BAR * sent / WINDOW))
    bar = Text(full * kept, style="green")
    bar.append(gone * (whole - kept), style="yellow")
    bar.append(rest * (_BAR - whole))
    return bar


def _say_end(console: Console, result: Outcome, rows: list[Turn], seconds: float) -> None:
    rates = price().rates
    console.print("\n* no earlier usage to build on: a pure estimate")
    columns = f"{'':<12}{'direct':>14}{'through the proxy':>20}{'saved':>12}" if _has_room(console) else ""
    console.print(f"\n[bold]{counted(result.turns, 'turn')} in {seconds:.1f} s[/]{columns}")
    _say_row(
        console, "input tokens", f"{result.input_direct:,}", f"{result.input_pruned:,}", result.saved_tokens_percent
    )
    cached = (f"{result.cached_direct_percent:.1f} %", f"{result.cached_pruned_percent:.1f} %")
    _say_row(console, "read from the cache", *cached, None)
    dollars = (f"${result.dollars_direct:.4f}", f"${result.dollars_pruned:.4f}")
    _say_row(console, "cost, cache breaks included", *dollars, result.saved_dollars_percent)
    console.print(
        f"{MODEL}: ${rates.input * _MILLION:g} input, ${rates.cache_read * _MILLION:g} cached, "
        f"${rates.output * _MILLION:g} output per million tokens"
    )
    if result.error_median_percent is not None:
        console.print(
            f"estimate error on {counted(result.anchored_turns, 'anchored turn')}: median {result.error_median_percent:.2f} %, "
            f"p95 {result.error_p95_percent:.2f} %, max {result.error_max_percent:.2f} %"
        )
    edits = ", ".join(f"{number} {kind}" for kind, number in result.edits.items())
    console.print(
        f"edits: {edits or 'none'}; answers lost or changed: {result.refused_pruned + result.different_answers}"
    )
    for row in rows:
        more = f" (and {len(row.decisions) - 1} more)" if len(row.decisions) > 1 else ""
        for line in row.decisions[:1]:
            console.print(f"  turn {row.turn}: {line}{more}", soft_wrap=True)
    if result.refused_direct:
        console.print(
            f"Over the window without the proxy, and not in its bill: {counted(result.refused_direct, 'turn')}."
        )
    console.print(verdict(result), style="bold")


def _say_row(console: Console, name: str, direct: str, pruned: str, saved: float | None) -> None:
    gain = "" if saved is None else signed_percent(saved)
    if _has_room(console):
        console.print(f"{name:<28}{direct:>14}{pruned:>20}{gain:>12}")
    else:
        console.print(f"{name}: {direct} direct, {pruned} through the proxy{gain and f', saved {gain}'}")


def verdict(result: Outcome) -> str:
    """The last line: what it came to, also where it came to nothing."""
    if result.saved_tokens <= 0 and not result.edits:
        return "Nothing was saved: nothing in this session was worth pruning, so every request went out as it came."
    if result.refused_direct:
        return f"The proxy kept the session going: without it, {counted(result.refused_direct, 'turn')} would have been refused."
    if result.saved_dollars <= 0:
        return (
            f"Nothing was saved: {result.saved_tokens:,} tokens fewer were sent, but the cache breaks cost "
            f"${-result.saved_dollars:.4f} more than that brought."
        )
    return (
        f"Saved {result.saved_tokens:,} input tokens and ${result.saved_dollars:.4f} of ${result.dollars_direct:.4f}."
    )


def trouble(result: Outcome) -> str:
    """What must not happen and did; empty when nothing did."""
    if result.refused_pruned:
        return f"{result.refused_pruned} of {result.turns} turns were refused through the proxy"
    if result.different_answers:
        return f"{result.different_answers} of {result.turns} answers differ from the direct ones"
    if result.failed_open:
        return f"a stage of the proxy failed in {result.failed_open} of {result.turns} turns"
    return ""


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)
