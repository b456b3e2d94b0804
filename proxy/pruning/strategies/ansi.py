"""Terminal control codes, and progress lines that a terminal would have overwritten, go. What a person saw stays."""

import re

_CODES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links
    r"|\x1b[@-Z\\^_=>]"
)
# Tried only where a line begins: a line may be a whole file.
_OVERWRITTEN = re.compile(r"(?<![^\n\r])[^\n\r]*+\r(?=[^\n\r])")


def ansi(text: str) -> str:
    """The text without control codes; of a line that was overwritten again and again, its last state."""
    if "\x1b" in text:
        text = _CODES.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text)
    return text
