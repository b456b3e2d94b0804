"""The text that stands where a tool result stood: honest about what is gone, and the same for ever.

It says what stood there and how large it was, that the original is intact, and how to see it again; it names only a
tool that the request itself offers, since a model told to call a missing tool tries for a long time. No time, counter
or random part: the same result gives the same placeholder, so a prompt cache holds.
"""

from collections.abc import Callable, Sequence

from proxy.conversation.model import ToolResult
from proxy.pruning.identifiers import identifiers


def note(result: ToolResult, tool: str, offered: Sequence[str]) -> str:
    """One line, under 200 characters for tool names of usual length."""
    size = f"{len(result.text):,} characters" + (f", {len(result.media)} media" if result.media else "")
    again = f"call {tool} again if you need it" if tool in offered else "it can be fetched again"
    return f"[Older output removed to save context ({size}). The original is intact: {again}.]"


def placeholder(
    result: ToolResult, tool: str, offered: Sequence[str], count: Callable[[str], int], room_tokens: int
) -> str:
    """The note, and behind it the identifiers that fit into `room_tokens`."""
    line = note(result, tool, offered)
    kept = identifiers(result.text, count, room_tokens) if room_tokens > 0 else ()
    return f"{line}\nIt mentioned: {' '.join(kept)}" if kept else line
