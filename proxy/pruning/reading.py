"""Which results are needed word for word: files that were read, where files can be edited, and reports of failures.

An edit names the old text exactly, so an agent that is about to edit needs what it read word for word; and while it mends
what failed, it goes back to the report. No placeholder can stand in for either. Tools' names and a few words are the only
thing to go by, and agents agree on them well enough.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from proxy.conversation.model import ToolCall
from proxy.conversation.recall import by_hash

_EDITS = re.compile(r"edit|write|patch|replace|create_?file|insert", re.IGNORECASE)
_READS = re.compile(r"read|view|open|cat\b|get_?file|show_?file|str_replace", re.IGNORECASE)
_PRINTS = re.compile(r"\b(?:cat|sed -n|head|tail|nl|bat|less)\b")
"""Shell commands that print a file."""
_COMMAND_CHARS = 300
_RAISED = re.compile(r"[A-Z](?<!\w[A-Z])\w*(?:Error|Exception)\b")
# Each with what it cannot do without, to look for which takes next to nothing: a tenth of one expression for all. They begin
# with what they look for, not with `\b`, since the search for a fixed beginning is as fast.
_FAILURES = (
    ("Traceback (most", None),
    ("npm ERR!", None),
    ("panicked at", None),
    ("FAILED", re.compile(r"FAILED(?<!\wFAILED)\b")),
    ("fatal:", re.compile(r"fatal:(?<!\wfatal:)")),
    (" code", re.compile(r"exit(?:ed with)? code:? [1-9]")),
    ("error", re.compile(r"error(?<!\werror)(?:\[\w+\])?:")),
    ("Error", _RAISED),
    ("Exception", _RAISED),
)


def offers_editing(tools: Sequence[str]) -> bool:
    """Whether a request offers a tool that edits files."""
    return any(_EDITS.search(name) for name in tools)


def reads_file(call: ToolCall | None) -> bool:
    """Whether the result of this call is the text of a file."""
    return call is not None and _is_reading(call.name, call.arguments[:_COMMAND_CHARS])


@lru_cache(maxsize=4096)
def _is_reading(name: str, arguments: str) -> bool:
    return bool(_READS.search(name) or _PRINTS.search(arguments))


@by_hash(most=16_384)
def shows_failure(text: str) -> bool:
    """Whether a result reports that something failed; most wire formats have no mark for that."""
    return any(sign in text and (pattern is None or pattern.search(text) is not None) for sign, pattern in _FAILURES)
