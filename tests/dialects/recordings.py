"""Recorded calls (tests/fixtures/<dialect>/INDEX.tsv) and what must be read in them."""

import csv
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from proxy.dialects.base import Dialect, Observation
from proxy.tokens.usage import Usage

FIXTURES = Path(__file__).parent.parent / "fixtures"


@dataclass(frozen=True, slots=True)
class Recording:
    """One row of an index."""

    stem: Path
    stream: bool
    row: dict[str, str]

    @property
    def name(self) -> str:
        return self.row["path"]

    @property
    def response(self) -> bytes:
        return self.stem.with_name(self.stem.name + (".response.sse" if self.is_sse else ".response.json")).read_bytes()

    @property
    def is_sse(self) -> bool:
        return self.row["stream"] == "sse"

    @property
    def request(self) -> bytes | None:
        path = self.stem.with_name(self.stem.name + ".request.json")
        return path.read_bytes() if path.exists() else None

    @property
    def has_usage(self) -> bool:
        return bool(self.row["input_total"])

    @property
    def status(self) -> int:
        return int(self.row["status"])


def recordings(dialect: str) -> list[Recording]:
    """All rows of a dialect, in order."""
    folder = FIXTURES / dialect
    with (folder / "INDEX.tsv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [Recording(folder / row["path"], row["stream"] != "no", row) for row in rows]


def observe(dialect: Dialect, pieces, *, stream: bool, complete: bool = True, keep_text: bool = False) -> Observation:
    """What a fresh reader makes of these pieces."""
    reader = dialect.reader(stream=stream, keep_text=keep_text)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish(complete=complete)


def cut(body: bytes, places) -> list[bytes]:
    """The body cut at these places."""
    edges = [0, *sorted({place % (len(body) + 1) for place in places}), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def numbers(usage: Usage) -> tuple[int | None, int, int, int, int]:
    """Usage as the index states it: what was not reported as 0, but for the input."""
    return (
        usage.input_tokens,
        usage.output_tokens or 0,
        usage.cache_read_tokens or 0,
        usage.cache_write_tokens or 0,
        usage.reasoning_tokens or 0,
    )


def expected(recording: Recording, usage: Usage) -> tuple[int | None, int, int, int, int]:
    """What the index says; a column that it leaves open (hidden reasoning) is taken from what was read."""
    if not recording.has_usage:
        return (None, 0, 0, 0, 0)
    row = recording.row
    names = ("input_total", "output", "cached", "cache_write", "reasoning")
    read = numbers(usage)
    return tuple(int(row[name]) if row[name] else read[place] for place, name in enumerate(names))


def named(recording: Recording) -> str:
    """For test ids."""
    return recording.name.partition("/")[2][-60:]
