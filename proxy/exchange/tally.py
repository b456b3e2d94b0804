"""What tool results take of a conversation, summed up turn by turn: a turn pays only for the results that it adds."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from proxy.conversation.edit import Edit, Replace, Summarise, edits_of
from proxy.exchange.weigh import Size, Weighed

_MOST_ITEMS = 8
"""Largest results that a row names."""

_Item = tuple[int, int, str, str]
"""Tokens of a result as it goes out, the number of its message from 1, its tool, and the kind of the edit in its place."""


class Sums(NamedTuple):
    """What the results of a request take."""

    by_tool: dict[str, int]
    """Tokens as they came. Not to be changed: later sums may go on from it."""
    largest: Sequence[_Item]
    """Largest first."""


_NOTHING = Sums({}, ())


class Tally:
    """The sums of a conversation's last request, for the next one to go on from.

    Conversations that begin alike may share one: the prefix key behind the last message says whose sums these are.
    """

    def __init__(self) -> None:
        self._sums = _NOTHING
        self._messages = 0
        self._of: tuple[bytes, str, tuple[Edit, ...]] = (b"", "", ())
        """Prefix key behind those messages, name of the scale, and the edits that stood in them."""

    def sums(self, weighed: Weighed, keys: Sequence[bytes], edits: tuple[Edit, ...]) -> Sums:
        """Those of this request. `edits`: what stands in it."""
        known, count = self._messages, len(keys)
        if 0 < known <= count and self._of == (keys[known - 1], weighed.scale, edits):
            # Edits that stood in the messages before concern none of the new ones.
            found = _with(self._sums, weighed.sizes[known:], (), weighed)
        else:
            found = _with(_NOTHING, weighed.sizes, edits, weighed)
        self._sums, self._messages = found, count
        self._of = (keys[-1] if keys else b"", weighed.scale, edits)
        return found


def _with(sums: Sums, sizes: Sequence[Sequence[Size]], edits: Sequence[Edit], weighed: Weighed) -> Sums:
    """The sums with these results."""
    new = list(chain.from_iterable(sizes))
    if not new:
        return sums
    by_tool = sums.by_tool.copy()
    for tokens, _, _, tool in new:
        by_tool[tool] = by_tool.get(tool, 0) + tokens
    items = (
        _edited(new, edits, weighed.index)
        if edits
        else [(tokens, message + 1, tool, "") for tokens, message, _, tool in new]
    )
    # A heap of the largest ones takes longer than to sort even some hundreds.
    return Sums(by_tool, sorted([*sums.largest, *items], reverse=True)[:_MOST_ITEMS])


def _edited(sizes: Sequence[Size], edits: Sequence[Edit], index: Mapping[bytes, int]) -> list[_Item]:
    """The results that go out, each as its edit has left it."""
    edited = {(index[edit.at], edit.part): edit for edit in edits_of(edits, Replace)}
    summaries = edits_of(edits, Summarise)
    hidden = {number for edit in summaries for number in range(index[edit.first], index[edit.last] + 1)}
    return [
        (tokens, message + 1, tool, "")
        if (edit := edited.get((message, part))) is None
        else (edit.tokens_after, message + 1, tool, edit.kind)
        for tokens, message, part, tool in sizes
        if message not in hidden
    ]
