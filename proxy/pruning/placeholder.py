"""The text that stands where a tool result stood: honest about what is gone, and the same for ever.

It says what stood there and how large it was, that the original is intact, and how to see it again; it names only a
tool that the request itself offers, since a model told to call a missing tool tries for a long time. No time, counter
or random part: the same result gives the same placeholder, so a prompt cache holds.
"""

from collections.abc import Callable, Collection, Sequence

from proxy.conversation.model import ToolResult
from proxy.pruning.identifiers import identifiers

NOTE_TOKENS = 26
"""About what the note takes, for decisions made before it is written."""

ROOM_FLOOR_TOKENS = 30
"""Room for identifiers that even a small result gets: small results are dense with them."""

_LARGEST_SHARE = 0.5


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
    """The note, and behind it the identifiers that fit into `room_tokens`; `known` ones stand elsewhere."""
    line = note(result, tool, offered)
    kept = identifiers(result.text, count, room_tokens, known) if room_tokens > 0 else ()
    return f"{line}\nIt mentioned: {' '.join(kept)}" if kept else line
