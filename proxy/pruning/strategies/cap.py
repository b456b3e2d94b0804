"""A single result that would fill much of the window keeps its head and its tail, with honest numbers."""

from collections.abc import Callable

_HEAD_SHARE = 0.6
_LEAST_CHARS = 400
# Most formats have no mark for errors, so it is not said that the call succeeded.
_OF_OUTPUTS = "the output would fill too much of the context. That it was cut is no failure of the call; ask for a part to see more."
_OF_ERRORS = "the error's text would fill too much of the context."


def cap(text: str, tokens: int, most_tokens: int, count: Callable[[str], int], *, is_error: bool = False) -> str:
    """The text unchanged when its `tokens` are at most `most_tokens`; else head and tail, and what was left out."""
    if tokens <= most_tokens:
        return text
    chars = len(text) * most_tokens // tokens
    note = _OF_ERRORS if is_error else _OF_OUTPUTS
    shortened = _cut(text, chars, note)
    # Dense spots may stand at the ends; a tenth less each time ends soon.
    while count(shortened) > most_tokens and chars > _LEAST_CHARS:
        chars = chars * 9 // 10
        shortened = _cut(text, chars, note)
    return shortened


def _cut(text: str, chars: int, note: str) -> str:
    head = text[: int(chars * _HEAD_SHARE)]
    tail = text[len(text) - (chars - len(head)) :]
    # Whole lines where there are lines: half a line is easily misread.
    if "\n" in head:
        head = head[: head.rindex("\n") + 1]
    if "\n" in tail:
        tail = tail[tail.index("\n") + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[{left_out:,} of {len(text):,} characters left out here: {note}]\n{tail}"
