"""Text that already stands whole in the body becomes a reference to it. Lossless.

Either the whole result equals an earlier one, or long runs of its lines stand in one earlier result (a file read again
after a change, a page looked at again). The *newer* copy is replaced: replacing the older one would break the prompt
cache behind it.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from proxy.conversation.model import ToolCall
from proxy.conversation.recall import remembered

_ARGUMENTS_SHOWN = 120
_LINE_SHOWN = 80
LEAST_LINES = 6
_LEAST_CHARS = 400
"""A run must be worth its reference, which takes about 60 tokens."""
_MOST_COMPARED = 3
SHORT_LINE = 8
"""Lines up to this length (braces, blanks) tell nothing about where a text comes from."""
LONGEST_CHARS = 400_000
"""Longer texts are compared as a whole only, to bound the work."""


class Earlier(NamedTuple):
    """An earlier result that stands whole in the body."""

    key: bytes
    part: int
    text: str
    call: ToolCall | None


class Repeat(NamedTuple):
    """A text with references in it, and what they refer to."""

    text: str
    of: bytes
    of_part: int


def repeats(text: str, earlier: Sequence[Earlier]) -> Repeat | None:
    """`text` with what it repeats of one earlier result replaced by references; None where it repeats nothing."""
    if not earlier:
        return None
    for candidate in earlier:
        if candidate.text == text:
            whole = f"[Exactly the same output ({len(text):,} characters) as {_named(candidate.call)} gave above.]"
            return Repeat(whole, candidate.key, candidate.part) if len(whole) < len(text) else None
    lines = text.split("\n")
    if len(lines) < LEAST_LINES or not _LEAST_CHARS <= len(text) <= LONGEST_CHARS:
        return None
    best: tuple[int, Earlier, list[tuple[int, int]]] | None = None
    for candidate in _likeliest(lines, earlier):
        runs = _runs(lines, candidate.text)
        repeated = sum(sum(map(len, lines[start:end])) for start, end in runs)
        if runs and (best is None or repeated > best[0]):
            best = (repeated, candidate, runs)
    if best is None:
        return None
    _, candidate, runs = best
    return Repeat(_with_references(lines, runs, candidate), candidate.key, candidate.part)


def _likeliest(lines: Sequence[str], earlier: Sequence[Earlier]) -> list[Earlier]:
    """The few results that share most with these lines, in whatever order, the one that shares most first."""
    known = {line for line in lines if len(line) > SHORT_LINE}
    shared = []
    for position, candidate in enumerate(earlier):
        if _LEAST_CHARS <= len(candidate.text) <= LONGEST_CHARS:
            common = known & _places(candidate.text).keys()
            if len(common) >= LEAST_LINES // 2 and (chars := sum(map(len, common))) >= _LEAST_CHARS // 2:
                shared.append((-chars, position))
    return [earlier[position] for _, position in heapq.nsmallest(_MOST_COMPARED, shared)]


@remembered(room_bytes=8 * 1024 * 1024)
def _places(text: str) -> dict[str, list[int]]:
    """Where each line of a text stands. Shared: not to be changed."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(text.split("\n")):
        if len(line) > SHORT_LINE:
            places.setdefault(line, []).append(number)
    return places


def _runs(lines: Sequence[str], other: str) -> list[tuple[int, int]]:
    """Stretches of `lines` that stand in `other` line for line, each worth a reference."""
    places, others = _places(other), other.split("\n")
    runs = []
    at = 0
    while at < len(lines):
        # The first few places are enough: lines that stand often are blank or braces.
        longest = max((_common(lines, at, others, place) for place in places.get(lines[at], ())[:8]), default=0)
        if longest >= LEAST_LINES and sum(map(len, lines[at : at + longest])) >= _LEAST_CHARS:
            runs.append((at, at + longest))
            at += longest
        else:
            at += 1
    return runs


def _common(lines: Sequence[str], at: int, others: Sequence[str], place: int) -> int:
    length = 0
    while at + length < len(lines) and place + length < len(others) and lines[at + length] == others[place + length]:
        length += 1
    return length


def _with_references(lines: Sequence[str], runs: Sequence[tuple[int, int]], earlier: Earlier) -> str:
    said = _named(earlier.call)
    pieces: list[str] = []
    at = 0
    for start, end in runs:
        pieces += lines[at:start]
        first, last = _shown(lines[start]), _shown(lines[end - 1])
        pieces.append(f'[{end - start} lines, unchanged, as {said} gave above: from "{first}" to "{last}"]')
        said = "the same call"
        at = end
    pieces += lines[at:]
    return "\n".join(pieces)


def _named(call: ToolCall | None) -> str:
    if call is None:
        return "an earlier call"
    return f"the earlier call {call.name}({_shown(call.arguments, _ARGUMENTS_SHOWN)})"


def _shown(text: str, most: int = _LINE_SHOWN) -> str:
    return text if len(text) <= most else text[:most] + "…"
