"""The text that stands where a tool result stood: honest about what is gone, and the same for ever.

It says what stood there and how large it was, that the original is intact, and how to see it again; it names only a
tool that the request itself offers, since a model told to call a missing tool tries for a long time. No time, counter
or random part: the same result gives the same placeholder, so a prompt cache holds.
"""

import re
from collections.abc import Callable, Collection, Sequence

from proxy.conversation.model import ToolResult
from proxy.pruning.identifiers import identifiers

NOTE_TOKENS = 26
"""About what the note takes, for decisions made before it is written."""

ROOM_FLOOR_TOKENS = 30
"""Room for identifiers that even a small result gets: small results are dense with them."""

_LARGEST_SHARE = 0.5

_SAVED = re.compile(
    r"\bfull output (?:has been |was |is )?(?:saved to|available at):?\s+((?:/|~|[A-Z]:\\)\S{1,400})", re.IGNORECASE
)
"""How Claude Code, Qwen Code and Gemini CLI say where they keep what was too large; what a model saw is an excerpt."""
_EDGE_CHARS = 1_000
"""They say it at the beginning or at the end; anywhere else it may be a text about them."""


def room_for(tokens: int, share: float) -> int:
    """Tokens that a placeholder may spend on identifiers of a result of `tokens`; 0 when `share` is 0."""
    return min(int(ROOM_FLOOR_TOKENS + tokens * share), int(tokens * _LARGEST_SHARE)) if share else 0


def note(result: ToolResult, tool: str, offered: Sequence[str]) -> str:
    """One line, under 200 characters for tool names of usual length."""
    size = f"{len(result.text):,} characters" + (f", {len(result.media)} media" if result.media else "")
    again = f"Original intact: call {tool} again to see it." if tool in offered else "The original is intact."
    return f"[Older output removed ({size}). {again}]"


def placeholder(
    result: ToolResult,
    tool: str,
    *,
    offered: Sequence[str],
    count: Callable[[str], int],
    room_tokens: int,
    known: Collection[str] = (),
) -> str:
    """The note, and behind it what fits into `room_tokens`: the file in which the client keeps the whole output, then identifiers.

    `known` ones stand elsewhere.
    """
    line = note(result, tool, offered)
    saved = _saved_in(result.text) if room_tokens > 0 else ""
    if saved and (left := room_tokens - count(saved)) >= 0:
        line, room_tokens = f"{line}\nSaved whole in: {saved}", left
    kept = identifiers(result.text, count, room_tokens, known) if room_tokens > 0 else ()
    return f"{line}\nIt mentioned: {' '.join(kept)}" if kept else line


def _saved_in(text: str) -> str:
    """Path of the file that holds the whole output, as the client says; empty where it does not."""
    edges = (text,) if len(text) <= 2 * _EDGE_CHARS else (text[:_EDGE_CHARS], text[-_EDGE_CHARS:])
    # A search without regard to case tries the whole expression at every character: seldom is there anything to be found.
    found = next((match for edge in edges if "full output" in edge.lower() and (match := _SAVED.search(edge))), None)
    return found[1] if found else ""
