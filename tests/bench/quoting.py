"""Regret: does the model quote something that it can no longer see?

A turn regrets when the assistant message (text or call arguments) names an identifier-like string that stands in the
history as the client has it, but nowhere in the history as it was sent. Identifier-like: a path or file name, a word
that mixes letters with digits, a number of four digits or more, a symbol (snake_case, camelCase, dotted.name).
Lexical, so a proxy for what matters: but what a model quotes it must have seen.
"""

import re
from collections import Counter
from functools import lru_cache

from proxy.conversation.model import Message, Text, ToolCall, ToolResult

_WORD = re.compile(r"[A-Za-z0-9_$@~./\\:+-]{3,200}")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")


@lru_cache(maxsize=200_000)
def quotable(text: str) -> frozenset[str]:
    """The identifier-like strings of a text."""
    return frozenset(word for raw in _WORD.findall(text) if _is_identifier(word := raw.strip(".:-+/\\~@$")))


def _is_identifier(word: str) -> bool:
    if len(word) < 4:
        return False
    if "/" in word.strip("/") or "\\" in word or _FILE.fullmatch(word):
        return any(char.isalpha() for char in word)
    if word.isdigit():
        return True
    letters = any(char.isalpha() for char in word)
    digits = any(char.isdigit() for char in word)
    return letters and (
        digits or "_" in word.strip("_") or "." in word or (word[1:] != word[1:].lower() and not word.isupper())
    )


def texts_of(message: Message) -> list[tuple[int, str]]:
    """All text of a message that a model reads or writes, with the index of its part."""
    found = []
    for index, part in enumerate(message.parts):
        match part:
            case Text() | ToolResult():
                found.append((index, part.text))
            case ToolCall():
                found.append((index, _unescaped(part.arguments)))
    return found


@lru_cache(maxsize=50_000)
def _unescaped(arguments: str) -> str:
    """Call arguments with their JSON escapes of line ends and quotes undone, so that words end where they end."""
    return arguments.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")


@lru_cache(maxsize=20_000)
def lines(text: str) -> frozenset[str]:
    """The lines of a text that say something, without indentation."""
    return frozenset(line for raw in text.split("\n") if len(line := raw.strip()) >= 15 and any(map(str.isalnum, line)))


class Sight:
    """What has been said so far, and what of it is still in sight."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self.said_lines: set[str] = set()
        self._words: Counter[str] = Counter()
        self._lines: Counter[str] = Counter()
        self._texts: dict[object, str] = {}

    def show(self, place: object, text: str, *, is_new: bool = True) -> None:
        """`text` stands at `place` from now on, instead of what stood there."""
        if before := self._texts.get(place):
            self._words.subtract(quotable(before))
            self._lines.subtract(lines(before))
        self._texts[place] = text
        self._words.update(quotable(text))
        self._lines.update(lines(text))
        if is_new:
            self.said |= quotable(text)
            self.said_lines |= lines(text)

    def lost(self, texts: list[str]) -> tuple[int, int]:
        """How many identifiers these texts quote from what was said, and how many of them stand nowhere any more."""
        quoted = {word for text in texts for word in quotable(text)} & self.said
        missing = [word for word in quoted if self._words[word] <= 0]
        return len(quoted), sum(not any(word in text for text in self._texts.values()) for word in missing)

    def loses_a_line(self, texts: list[str]) -> bool:
        """Whether these texts quote a whole line, word for word, that stands nowhere any more."""
        return any(self._lines[line] <= 0 for text in texts for line in lines(text) & self.said_lines)
