"""Applying a plan to a body: the one place where requests are rewritten.

Only the spans of edited messages are replaced; a plan without a foothold in this request gives back the very same
bytes object. The bytes made for a message depend on nothing but its old bytes and its edits, so the same prefix is
written the same way on every turn and on every replica.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from sys import maxsize
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from proxy.conversation.edit import (
    Edit,
    Insert,
    Plan,
    Replace,
    RestoreReasoning,
    StripReasoning,
    Summarise,
    edits_of,
)
from proxy.conversation.fingerprint import index_of
from proxy.conversation.lines import Notes
from proxy.dialects.base import Dialect, Splice, View
from proxy.wire.body import Span, splice

_IN_PLACE = frozenset({Replace, StripReasoning, RestoreReasoning})

_Change = tuple[Span, bytes]


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A body with a plan in it."""

    body: bytes
    standing: tuple[Edit, ...]
    """The edits that have a message in this request, in the plan's order."""


class _Placed(NamedTuple):
    """What a plan changes in a body. It holds for every body that begins alike, up to the last message it is about."""

    standing: tuple[Edit, ...] = ()
    summaries: tuple[_Change, ...] = ()
    hidden: frozenset[int] = frozenset()
    """Messages under them."""
    written: Mapping[int, tuple[list[Edit], _Change]] = MappingProxyType({})
    """The edits in each other message that they change."""
    inserts: tuple[_Change, ...] = ()
    changes: tuple[_Change, ...] = ()
    """All of them together."""


_NOTHING = _Placed()


def apply_plan(
    dialect: Dialect, view: View, keys: Sequence[bytes], plan: Plan, extra: Sequence[Splice] = ()
) -> Applied:
    """The request's body with the plan's edits; `extra` are splices outside the messages."""
    if not plan.edits and not extra:
        return Applied(body=view.body, standing=())
    placed = _NOTHING
    if plan.edits and view.editable:
        placed = view.notes.under("placed", plan.edits, partial(_placed, dialect, view, keys, plan))
    changes = [*[((cut.start, cut.end), cut.text) for cut in extra], *placed.changes]
    body = splice(view.body, changes) if changes else view.body
    return Applied(body=body, standing=placed.standing)


def _placed(
    dialect: Dialect,
    view: View,
    keys: Sequence[bytes],
    plan: Plan,
    earlier: _Placed | None,
    new: tuple[Edit, ...],
) -> tuple[int, _Placed]:
    """The plan's place in this body, and the number of leading messages that it depends on.

    `earlier`: the place of the plan without the edits that are `new`.
    """
    index = index_of(keys)
    reached, standing = standing_edits(view.notes, keys, plan)
    placed = earlier if earlier is not None and _IN_PLACE.issuperset(map(type, new)) else None
    if placed is None:
        placed = _around(dialect, view, standing, index)
    written = dict(placed.written)
    for number, more in _by_message(standing[len(placed.standing) :], index).items():
        if number not in placed.hidden:
            edits = [*written[number][0], *more] if number in written else more
            span = view.spans[number]
            text = _written(dialect, view.body[slice(*span)], edits)
            # An element that goes takes the comma before it along; the first one has none, and is never reasoning.
            written[number] = edits, (span if text else (view.spans[number - 1][1], span[1]), text)
    changes = (*placed.summaries, *[change for _, change in written.values()], *placed.inserts)
    return reached, placed._replace(standing=standing, written=written, changes=changes)


def _around(dialect: Dialect, view: View, standing: Sequence[Edit], index: Mapping[bytes, int]) -> _Placed:
    """What of the edits stands in the place of messages or between them."""
    summaries: list[_Change] = []
    inserts: list[_Change] = []
    hidden: set[int] = set()
    for start, end, summary in written_summaries(standing, index):
        summaries.append(((view.spans[start][0], view.spans[end][1]), dialect.user_message(summary.text)))
        hidden.update(range(start, end + 1))
    for edit in edits_of(standing, Insert):
        if index[edit.after] not in hidden:
            at = view.spans[index[edit.after]][1]
            inserts.append(((at, at), b"," + dialect.user_message(edit.text)))
    return _Placed(summaries=tuple(summaries), hidden=frozenset(hidden), inserts=tuple(inserts))


def standing_edits(notes: Notes, keys: Sequence[bytes], plan: Plan) -> tuple[int, tuple[Edit, ...]]:
    """The edits that have a message in this request (both ends of a range), in the plan's order. `keys`: the request's.

    In front of them the number of leading messages that decide what the plan does: all, where some of it does not stand yet.
    """

    def find(
        known: tuple[int, tuple[Edit, ...]] | None, new: tuple[Edit, ...]
    ) -> tuple[int, tuple[int, tuple[Edit, ...]]]:
        before, stood = known if known is not None else (0, ())
        index = index_of(keys)
        lasts = [_last(edit, index) for edit in new]
        reached = max(before, 1 + max(lasts, default=-1))
        standing = tuple([edit for edit, last in zip(new, lasts, strict=True) if last < maxsize])
        return reached, (reached, stood + standing)

    return notes.under("standing", plan.edits, find)


def _last(edit: Edit, index: Mapping[bytes, int]) -> int:
    """Index of the last message that an edit is about; `maxsize` where the request has not all that it is anchored to."""
    match edit:
        case Replace() | StripReasoning() | RestoreReasoning():
            return index.get(edit.at, maxsize)
        case Summarise():
            return max(index.get(edit.first, maxsize), index.get(edit.last, maxsize))
        case Insert():
            return index.get(edit.after, maxsize)


def written_summaries(standing: Sequence[Edit], index: Mapping[bytes, int]) -> list[tuple[int, int, Summarise]]:
    """First and last message of each summary that is written; nothing inside of one is written any more.

    A later summary swallows an earlier one. Where two overlap, the wider counts, of equal ones the later.
    """
    later_first = reversed(edits_of(standing, Summarise))
    ranges = [(index[edit.first], index[edit.last], edit) for edit in later_first]
    kept: list[tuple[int, int, Summarise]] = []
    for start, end, edit in sorted(ranges, key=lambda one: one[0] - one[1]):
        if start <= end and all(end < other[0] or other[1] < start for other in kept):
            kept.append((start, end, edit))
    return kept


def _by_message(edits: Iterable[Edit], index: Mapping[bytes, int]) -> dict[int, list[Edit]]:
    grouped: dict[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        if isinstance(edit, (Replace, StripReasoning, RestoreReasoning)):
            grouped[index[edit.at]].append(edit)
    return grouped


def _written(dialect: Dialect, message: bytes, edits: Sequence[Edit]) -> bytes:
    """The new bytes of a message; empty where it goes."""
    replaced = {edit.part: edit for edit in edits if isinstance(edit, Replace)}
    # What is only cut is still to be seen.
    keeping = tuple([part for part, edit in replaced.items() if edit.kind == "cap"])
    if replaced:
        message = dialect.replace_results(message, {part: edit.text for part, edit in replaced.items()}, keeping)
    for edit in edits_of(edits, RestoreReasoning):
        message = dialect.restore_reasoning(message, edit.payload)
    return dialect.strip_reasoning(message) if edits_of(edits, StripReasoning) else message
