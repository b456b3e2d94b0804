"""What tool results take of a conversation, summed up turn by turn: a turn pays only for the results that it adds."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from proxy.conversation.edit import Edit, Replace, Summarise, edits_of
from proxy.exchange.weigh import Size, Weighed, replaced_in
from proxy.pruning.results import replacements

_MOST_ITEMS = 8
"""Largest results that a row names."""

_Item = tuple[int, int, str, str]
"""Tokens of a result as it goes out, the number of its message from 1, its tool, and the kind of the edit in its place."""


class Sums(NamedTuple):
    """What the results of a request take."""

    by_tool: dict[str, int]
    """Tokens as they came."""
    largest: Sequence[_Item]
    """Largest first."""


class Tally:
    """The sums of a conversation's last request, for the next one to go on from.

    Conversations that begin alike may share one: the prefix key behind the last message says whose sums these are.
    """

    def __init__(self) -> None:
        self._by_tool: dict[str, int] = {}
        self._items: list[_Item] = []
        """All results that go out, smallest first."""
        self._messages = 0
        self._of: tuple[bytes, str] = (b"", "")
        """Prefix key behind those messages, and name of the scale."""
        self._edits: tuple[Edit, ...] = ()
        """The edits that stood in them."""

    def sums(self, weighed: Weighed, keys: Sequence[bytes], edits: tuple[Edit, ...]) -> Sums:
        """Those of this request. `edits`: what stands in it."""
        known, count, stood = self._messages, len(keys), self._edits
        new = edits[len(stood) :]
        # Whatever trips below leaves half an account, which the next request must not go on from.
        self._messages = 0
        if (
            0 < known <= count
            and self._of == (keys[known - 1], weighed.scale)
            and edits[: len(stood)] == stood
            and Summarise not in set(map(type, new))
        ):
            self._add(weighed.sizes[known:])
            if new:
                self._edit(edits_of(new, Replace), weighed, stood)
        else:
            self._by_tool, self._items = {}, []
            self._add(weighed.sizes)
            if edits:
                self._items = sorted(_edited(chain.from_iterable(weighed.sizes), edits, weighed.index))
        self._messages, self._of, self._edits = count, (keys[-1] if keys else b"", weighed.scale), edits
        return Sums(self._by_tool.copy(), tuple(self._items[: -_MOST_ITEMS - 1 : -1]))

    def _add(self, sizes: Sequence[Sequence[Size]]) -> None:
        """Count in these results, as they came."""
        for size in chain.from_iterable(sizes):
            self._by_tool[size.tool] = self._by_tool.get(size.tool, 0) + size.tokens
            insort(self._items, _item(size))

    def _edit(self, new: Sequence[Replace], weighed: Weighed, stood: tuple[Edit, ...]) -> None:
        """Put what these edits have left in the place of what stood there under the earlier ones."""
        before = replaced_in(weighed.notes, stood)
        for (key, part), edit in replacements(new).items():
            for size in weighed.sizes[weighed.index[key]]:
                if size.part == part:
                    old = _item(size, before.get((key, part)))
                    at = bisect_left(self._items, old)
                    # What a summary hides does not go out.
                    if at < len(self._items) and self._items[at] == old:
                        del self._items[at]
                        insort(self._items, _item(size, edit))


def _item(size: Size, edit: Replace | None = None) -> _Item:
    """The result as its edit has left it."""
    if edit is None:
        return size.tokens, size.message + 1, size.tool, ""
    return edit.tokens_after, size.message + 1, size.tool, edit.kind


def _edited(sizes: Iterable[Size], edits: Sequence[Edit], index: Mapping[bytes, int]) -> Iterator[_Item]:
    """The results that go out, each as its edit has left it."""
    edited = {(index[edit.at], edit.part): edit for edit in edits_of(edits, Replace)}
    summaries = edits_of(edits, Summarise)
    hidden = {number for edit in summaries for number in range(index[edit.first], index[edit.last] + 1)}
    return (_item(size, edited.get((size.message, size.part))) for size in sizes if size.message not in hidden)
