"""Which earlier results may hold what a new one says: an index that grows with its conversation.

To look at every earlier result again for every new one would cost a long conversation more than everything else. So the
index holds one line of every few of them, and only results that share such a line are looked at (strategies.repeats).
"""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.conversation.model import Message, ToolCall, ToolResult
from proxy.pruning.strategies.repeats import LEAST_LINES, LONGEST_CHARS, SHORT_LINE, Earlier

_STEP = LEAST_LINES // 2
"""Whatever run is long enough for a reference holds all lines of one such stretch, hence the one in the index."""
_MOST_COMPARED = 8
_MOST_STALE = 64
_MOST_ASKED = 8


_Places = dict[int, int | list[int]]
"""Hash → number of the entry, or numbers of several."""


class _Entry(NamedTuple):
    message: int
    part: int
    key: bytes
    """Prefix key of its message, which says of which conversations it is a part: who has it has the text, too."""


class Passages:
    """Lines of a conversation's results, and where they stand.

    Conversations that begin alike may share one: results of the others are told apart by their keys. No text is held
    here: the index may outlive the messages of a conversation that went another way.
    """

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        """Prefix keys of the messages that were read."""
        self._entries: list[_Entry] = []
        # By hash, since each line would take a string of its own; a false friend is found out when it is looked at.
        self._lines: _Places = {}
        self._texts: _Places = {}
        self._asked: dict[int, list[int]] = {}
        """Hash of a text that was asked for → what `_add` will want of it: mostly it is taken in with the next turn."""

    def __len__(self) -> int:
        """Results in the index."""
        return len(self._entries)

    def catch_up(self, messages: Sequence[Message], keys: Sequence[bytes], end: int) -> None:
        """Take in the results of the messages in front of `end` that are not known yet."""
        at = end
        while at and keys[at - 1] not in self._known:
            at -= 1
        if len(self._entries) > _MOST_STALE + 4 * end:
            # Mostly of conversations that went other ways.
            self._known, self._entries, self._lines, self._texts = set(), [], {}, {}
            at = 0
        for index in range(at, end):
            self._known.add(keys[index])
            for position, part in enumerate(messages[index].parts):
                if isinstance(part, ToolResult) and not (part.media or part.to_code):
                    self._add(_Entry(index, position, keys[index]), part.text)

    def alike(
        self,
        text: str,
        messages: Sequence[Message],
        keys: Sequence[bytes],
        within: range,
        edited: frozenset[tuple[bytes, int]],
    ) -> list[Earlier]:
        """The results of the messages `within` that equal `text` or may share passages with it, in order.

        Only those whose text nobody has touched.
        """
        shared: dict[int, int] = {}
        if len(text) <= LONGEST_CHARS:
            lines = text.split("\n")
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            self._asked[hash(text)] = _told(lines)
            for line in self._lines.keys() & map(hash, lines):
                for number in _numbers(self._lines, line):
                    shared[number] = shared.get(number, 0) + 1
        for number in _numbers(self._texts, hash(text)):
            shared[number] = len(text)
        found = [
            (-lines, entry)
            for number, lines in shared.items()
            if (entry := self._entries[number]).message in within
            and keys[entry.message] == entry.key
            and (entry.key, entry.part) not in edited
        ]
        best = sorted(entry for _, entry in sorted(found)[:_MOST_COMPARED])
        results = ((entry, messages[entry.message].parts[entry.part]) for entry in best)
        return [
            Earlier(entry.key, entry.part, result.text, _call(messages, within, entry.message, result))
            for entry, result in results
            if isinstance(result, ToolResult)
        ]

    def _add(self, entry: _Entry, text: str) -> None:
        number = len(self._entries)
        self._entries.append(entry)
        _put(self._texts, hash(text), number)
        if len(text) > LONGEST_CHARS:
            return
        told = self._asked.pop(hash(text), None) or _told(text.split("\n"))
        places: _Places = dict.fromkeys(told, number)
        # Nearly every line is a new one.
        for name in places.keys() & self._lines.keys():
            _put(self._lines, name, number)
            del places[name]
        self._lines.update(places)


def _told(lines: Sequence[str]) -> list[int]:
    """Hash of the first line of each stretch that tells something."""
    told = [line if len(line) > SHORT_LINE else _first(lines, at * _STEP) for at, line in enumerate(lines[::_STEP])]
    return list(map(hash, filter(None, told)))


def _first(lines: Sequence[str], start: int) -> str:
    """The first line of a stretch that tells something; empty where none does."""
    return next((line for line in lines[start : start + _STEP] if len(line) > SHORT_LINE), "")


def _put(places: _Places, name: int, number: int) -> None:
    there = places.setdefault(name, number)
    if isinstance(there, list):
        if there[-1] != number:
            there.append(number)
    elif there != number:
        places[name] = [there, number]


def _numbers(places: _Places, name: int) -> Sequence[int]:
    there = places.get(name)
    if there is None:
        return ()
    return there if isinstance(there, list) else (there,)


def _call(messages: Sequence[Message], within: range, at: int, result: ToolResult) -> ToolCall | None:
    """The nearest earlier call with the id of this result, which stands in message `at`."""
    for index in range(at, within.start - 1, -1):
        for part in reversed(messages[index].parts):
            if isinstance(part, ToolCall) and part.call_id == result.call_id:
                return part
    return None
