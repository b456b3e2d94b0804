"""Pure: session files that clients keep, read into the requests that they had sent.

What a client showed or noted for itself is left out. A session that its client has compacted becomes several histories,
since each began anew. FORMATS is the one table: how a client's entries are known, and what reads them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from proxy.dialects.session_files.claude_code import claude_code, is_claude_code
from proxy.dialects.session_files.codex import codex, is_codex
from proxy.dialects.session_files.gemini_cli import gemini_cli, is_gemini_cli
from proxy.dialects.session_files.opencode import is_opencode, opencode

Json = dict[str, Any]

FORMATS: tuple[tuple[Callable[[Json], bool], Callable[[Iterable[Json]], list[Json]]], ...] = (
    (is_claude_code, claude_code),
    (is_codex, codex),
    (is_gemini_cli, gemini_cli),
    (is_opencode, opencode),
)


def requests_in(entries: Sequence[Json]) -> list[Json] | None:
    """The request bodies that a session's entries stand for; None where they are no client's that is known here."""
    for is_entry, read in FORMATS:
        if any(map(is_entry, entries)):
            return read(entries)
    return None
