"""The table of what the provider serves: path → what is done there, by which API."""

import re
from dataclasses import dataclass
from typing import Literal

from proxy.demo.provider.asked import Api
from proxy.demo.provider.chat import Chat


@dataclass(frozen=True, slots=True)
class Row:
    """One endpoint."""

    path: re.Pattern[str]
    verb: Literal["answer", "count"]
    api: Api


ROWS: tuple[Row, ...] = (Row(re.compile(r"/v1/chat/completions"), "answer", Chat()),)


def row_for(path: str) -> tuple[Row, dict[str, str]] | None:
    """The endpoint at a path and the named parts of the path; None for 404."""
    for row in ROWS:
        found = row.path.fullmatch(path)
        if found:
            return row, found.groupdict()
    return None
