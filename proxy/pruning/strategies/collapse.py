"""Routine output is folded with honest counts; lines that differ, and anything about errors, stay.

Three kinds of routine: lines that say the same but for a time, a duration or a counter; the steps of installers and the
names of passing tests; and JSON that is spread over lines for people's eyes, which is written compactly. Never used on
the text of a file that an editing tool may have to match.
"""

import re
from collections.abc import Sequence

import orjson

_LEAST_LINES = 4
"""Shorter stretches are not worth a note."""

_MOVING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"  # date and time
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b\d+(?:\.\d+)?\s?(?:%|ms|µs|us|ns|s|sec|min|[kKMG]i?B(?:/s)?|bytes)(?!\w)"
    r"|\b\d+\s?(?:/|of)\s?\d+\b"  # 12/340, 12 of 340
    r"|0x[0-9a-fA-F]+\b"
    r"|[━─█▓▒░#=>.-]{8,}"  # progress bars
)
_SPACED = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_TROUBLE = re.compile(
    r"error|fail|warn|exception|traceback|fatal|denied|not found|panic|critical|refused", re.IGNORECASE
)
_ROUTINE = (
    (
        "passing tests",
        re.compile(
            r"^\s*(?:[✓✔√]\s|ok \d+\b|--- PASS:|PASS\b|test .+ \.\.\. ok$|\[\s+(?:OK|RUN)\s+\])"
            r"|\bPASSED\b(?:\s+\[\s*\d+%\])?\s*$|\.\.\. (?:ok|passed)\s*$"
        ),
    ),
    (
        "installer steps",
        re.compile(
            r"^\s*(?:Collecting |Downloading |Using cached |Requirement already satisfied|Obtaining |Get:\d+ |Hit:\d+ |"
            r"Selecting previously |Preparing to unpack|Unpacking |Setting up |Processing triggers |"
            r"Compiling \S+ v\d|Downloaded \S+ v\d|npm (?:http|notice|sill|verb) |Fetching |Resolving |added \S+@)"
        ),
    ),
)


def collapse(text: str) -> str:
    """The text with its routine folded; the text itself where there is none."""
    compact = _compact_json(text)
    if compact is not None:
        return compact
    lines = text.split("\n")
    if len(lines) < _LEAST_LINES:
        return text
    folded: list[str] = []
    at = 0
    while at < len(lines):
        end, name = _stretch(lines, at)
        if end - at >= _LEAST_LINES:
            folded += _note(lines[at:end], name)
        else:
            end = at + 1
            folded.append(lines[at])
        at = end
    return "\n".join(folded) if len(folded) < len(lines) else text


def _compact_json(text: str) -> str | None:
    """JSON without the white space between its values, every value as it is written; None for other text."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return None
    try:
        orjson.loads(stripped)
    except orjson.JSONDecodeError:
        return None
    return _SPACED.sub(lambda found: found[1] or "", stripped)


def _stretch(lines: Sequence[str], at: int) -> tuple[int, str]:
    """Where the stretch of routine that begins at line `at` ends, and what it is; `at` itself when there is none."""
    line = lines[at]
    if not line.strip() or _TROUBLE.search(line):
        return at, ""
    for name, pattern in _ROUTINE:
        if pattern.search(line):
            end = at
            while end < len(lines) and pattern.search(lines[end]) and not _TROUBLE.search(lines[end]):
                end += 1
            return end, name
    shape = _MOVING.sub("\0", line)
    end = at + 1
    while end < len(lines) and not _TROUBLE.search(lines[end]) and _MOVING.sub("\0", lines[end]) == shape:
        end += 1
    return end, "lines"


def _note(stretch: Sequence[str], name: str) -> list[str]:
    """First and last line of the stretch, and how many stood between them."""
    between = len(stretch) - 2
    what = f"{between} more lines like these" if name == "lines" else f"{between} more {name}"
    return [stretch[0], f"[{what}]", stretch[-1]]
