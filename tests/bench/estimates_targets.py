"""The targets of the estimates' benchmark, and its figures as people read them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.counting import Counted

BAR = 24
"""Characters of a bar that reaches its limit."""
NOTHING = "–"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a figure may be at most, in the rows of one kind."""

    kind: str
    figure: str
    limit: float
    unit: str = "%"


TARGETS = (
    Target(kind="known", figure="total_median", limit=0.05),
    Target(kind="known", figure="total_p95", limit=0.5),
    Target(kind="known", figure="growth_median", limit=1.0),
    Target(kind="known", figure="first_median", limit=1.0),
    Target(kind="unknown", figure="total_median", limit=0.3),
    Target(kind="unknown", figure="total_p95", limit=1.5),
    Target(kind="unknown", figure="growth_median", limit=4.0),
    Target(kind="unknown", figure="first_median", limit=5.0),
    Target(kind="recorded", figure="total_median", limit=0.02),
    Target(kind="recorded", figure="total_p95", limit=0.7),
    Target(kind="real text", figure="ms_per_mb", limit=50.0, unit="ms"),
    Target(kind="worst text", figure="seconds", limit=1.0, unit="s"),
    # A piece of a text is counted between two turns of the event loop.
    Target(kind="worst text", figure="longest_ms", limit=10.0, unit="ms"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target beside the worst figure among its rows."""

    target: Target
    worst: float | None
    """None: no row had this figure."""
    where: str

    @property
    def word(self) -> str:
        """met | not met | not measured"""
        if self.worst is None:
            return "not measured"
        return "met" if self.worst <= self.target.limit else "not met"

    def as_json(self) -> Row:
        """For machines."""
        return {**asdict(self.target), "worst": self.worst, "where": self.where, "verdict": self.word}


def counted_row(one: Counted) -> Row:
    """A row of counting, beside those of the estimates."""
    kind = "real text" if one.text == "recorded sessions" else "worst text"
    return {
        "kind": kind,
        "text": one.text,
        "encoding": one.encoding,
        "megabytes": one.megabytes,
        "ms_per_mb": one.ms_per_mb,
        "seconds": one.seconds,
        "longest_ms": one.longest_ms,
    }


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Every target, in order."""
    return [_verdict(target, rows) for target in TARGETS]


def _verdict(target: Target, rows: Sequence[Row]) -> Verdict:
    found = [
        (row[target.figure], f"{row.get('provider') or row['text']}, {row.get('format') or row['encoding']}")
        for row in rows
        if row["kind"] == target.kind and row.get(target.figure) is not None
    ]
    worst, where = max(found, default=(None, ""))
    return Verdict(target=target, worst=worst, where=where)


def exit_code(found: Sequence[Verdict]) -> int:
    """0: all met. 1: one is not met. 2: one could not be measured."""
    words = {one.word for one in found}
    return 2 if "not measured" in words else 1 if "not met" in words else 0


_ESTIMATES = (
    *("total_median", "total_p95", "total_max", "growth_median", "growth_p95"),
    *("early_p95", "early_max", "first_median", "inside_range"),
)
_COUNTING = ("megabytes", "seconds", "ms_per_mb", "longest_ms")


def shown(rows: Sequence[Row], found: Sequence[Verdict]) -> Iterator[str]:
    """Lines: the estimates' rows, the counting's rows, the targets with bars. "✗" marks a figure over its target."""
    limits = {(one.target.kind, one.target.figure): one.target.limit for one in found}
    estimates = [row for row in rows if "provider" in row]
    counting = [row for row in rows if "text" in row]
    if estimates:
        yield _line("provider", "format", "calls", *_ESTIMATES)
        for row in estimates:
            yield _line(row["provider"], row["format"], f"{row['calls']:,}", *_cells(row, _ESTIMATES, limits))
        yield ""
    if counting:
        yield _line("text", "encoding", *_COUNTING)
        for row in counting:
            yield _line(row["text"], row["encoding"], *_cells(row, _COUNTING, limits))
        yield ""
    yield "target (the worst row's figure, and its bar: | is the limit)"
    yield from map(_target_line, found)


def _line(name: str, second: str, *cells: str) -> str:
    return f"{name:26}{second:13}" + "".join(f"{cell:>15}" for cell in cells)


def _cells(row: Row, figures: Sequence[str], limits: dict[tuple[str, str], float]) -> Iterator[str]:
    for figure in figures:
        value, limit = row[figure], limits.get((row["kind"], figure))
        over = value is not None and limit is not None and value > limit
        yield (NOTHING if value is None else f"{value:.3f}") + (" ✗" if over else "  ")


def _target_line(one: Verdict) -> str:
    target = one.target
    name = f"{target.kind:12}{target.figure:15}≤ {target.limit:<5g}{target.unit:3}"
    if one.worst is None:
        return f"{name}{NOTHING:>9}  {'':{BAR + 2}}  {one.word}"
    filled = min(BAR, round(BAR * one.worst / target.limit))
    bar = "█" * filled + " " * (BAR - filled) + ("|" if one.worst <= target.limit else "|▶")
    return f"{name}{one.worst:>9.3f}  {bar:{BAR + 2}}  {one.word:9}{one.where}"
