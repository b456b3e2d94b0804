"""Regret: does the model quote something that it can no longer see?

A turn regrets when the assistant message (text or call arguments) names an identifier-like string that stands in the
history as the client has it, but nowhere in the history as it was sent. Identifier-like: a path or file name, a word
that mixes letters with digits, a number of four digits or more, a symbol (snake_case, camelCase, dotted.name).
Lexical, so a proxy for what matters: but what a model quotes it must have seen.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from proxy.conversation.edit import Replace
from proxy.conversation.fingerprint import index_of
from proxy.conversation.model import Message, Text, ToolCall, ToolResult
from proxy.conversation.recall import remembered
from proxy.exchange.rehearsal import Script, Step
from proxy.pruning.identifiers import unescaped

_WORD = re.compile(r"[A-Za-z0-9_$@~./\\:+-]{3,200}")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")


@remembered(room_bytes=256 * 1024 * 1024)
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
                found.append((index, unescaped(part.arguments)))
            case _:
                # Media and reasoning: no text that another message could quote.
                pass
    return found


class Sight:
    """What has been said so far, and what of it is still in sight."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._words: Counter[str] = Counter()
        self._texts: dict[Hashable, str] = {}

    def show(self, place: Hashable, text: str, *, is_new: bool = True) -> None:
        """`text` stands at `place` from now on, instead of what stood there. `is_new`: the client has it too."""
        if before := self._texts.get(place):
            self._words.subtract(quotable(before))
        self._texts[place] = text
        words = quotable(text)
        self._words.update(words)
        if is_new:
            self._said |= words

    def lost(self, texts: Iterable[str]) -> tuple[int, int]:
        """How many identifiers these texts quote from what was said, and how many of them stand nowhere any more."""
        quoted = {word for text in texts for word in quotable(text)} & self._said
        missing = [word for word in quoted if self._words[word] <= 0]
        return len(quoted), sum(not any(word in text for text in self._texts.values()) for word in missing)


def answered(script: Script, steps: Iterable[Step], sight: Sight) -> Iterator[tuple[Step, list[str]]]:
    """Each step with what the model wrote in answer to it; `sight` is kept at what that step's request shows."""
    place = index_of(script.keys)
    sight.show("system", script.system_text)
    for step in steps:
        for index in range(step.start, step.end):
            for part, text in texts_of(script.messages[index]):
                sight.show((index, part), text)
        for edit in step.edits:
            if isinstance(edit, Replace):
                sight.show((place[edit.at], edit.part), edit.text, is_new=False)
                continue
            first = place[edit.first]
            for index in range(first, place[edit.last] + 1):
                for part, _ in texts_of(script.messages[index]):
                    sight.show((index, part), "", is_new=False)
            sight.show((first, "record"), edit.text, is_new=False)
        answer = script.messages[step.end : step.end + 1]
        yield step, [text for message in answer for _, text in texts_of(message)]


def regrets(script: Script, steps: Iterable[Step]) -> int:
    """Turns whose answer quotes an identifier that the policy had taken out of sight."""
    sight = Sight()
    return sum(sight.lost(answer)[1] > 0 for _, answer in answered(script, steps, sight))
