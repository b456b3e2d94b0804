"""Applying a plan to a body: the one place where requests are rewritten.

Only the spans of edited messages are replaced; a plan without a foothold in this request gives back the very same
bytes object. The bytes made for a message depend on nothing but its old bytes and its edits, so the same prefix is
written the same way on every turn and on every replica.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from sys import maxsize
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
from proxy.conversation.recall import Recall
from proxy.dialects.base import Dialect, Splice, View
from proxy.wire.body import Span, splice

_IN_PLACE = (Replace, StripReasoning, RestoreReasoning)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A body with a plan in it."""

    body: bytes
    standing: tuple[Edit, ...]
    """The edits that have a message in this request, in the plan's order."""
    first_changed: int
    """Index of the first message that differs; len(messages) when none does."""


class _Placed(NamedTuple):
    """What a plan changes in a body. It holds for every body that begins alike, up to the last message it is about."""

    standing: tuple[Edit, ...]
    changes: tuple[tuple[Span, bytes], ...]
    first: int | None
    """Index of the first message that differs; None when none does."""
    written: dict[int, tuple[list[Edit], bytes]]
    """The edits of each message that was written, and its bytes, for plans that go on with this one."""


_NOTHING = _Placed((), (), None, {})


def apply_plan(
    dialect: Dialect, view: View, keys: Sequence[bytes], plan: Plan, recall: Recall, extra: Sequence[Splice] = ()
) -> Applied:
    """The request's body with the plan's edits; `extra` are splices outside the messages."""
    if not plan.edits and not extra:
        return Applied(body=view.body, standing=(), first_changed=len(keys))
    placed = _NOTHING
    if plan.edits and view.editable:
        placed = view.notes.upto("placed", plan.edits, partial(_placed, dialect, view, keys, plan, recall))
    changes = [*[((cut.start, cut.end), cut.text) for cut in extra], *placed.changes]
    body = splice(view.body, changes) if changes else view.body
    first = len(keys) if placed.first is None else placed.first
    return Applied(body=body, standing=placed.standing, first_changed=first)


def _placed(
    dialect: Dialect, view: View, keys: Sequence[bytes], plan: Plan, recall: Recall, earlier: _Placed | None
) -> tuple[int, _Placed]:
    """The plan's place in this body, and the number of leading messages that it depends on."""
    index = index_of(keys)
    reached, standing = standing_edits(view.notes, keys, plan)
    hidden: set[int] = set()
    changes: list[tuple[Span, bytes]] = []
    touched: list[int] = []
    for start, end, summary in written_summaries(standing, index):
        changes.append(((view.spans[start][0], view.spans[end][1]), dialect.user_message(summary.text)))
        hidden.update(range(start, end + 1))
        touched.append(start)
    known = {} if earlier is None else earlier.written
    written: dict[int, tuple[list[Edit], bytes]] = {}
    for number, edits in _by_message(standing, index).items():
        if number not in hidden:
            span, before = view.spans[number], known.get(number) if number < view.notes.shared else None
            text = (
                before[1]
                if before is not None and before[0] == edits
                else _written(dialect, view.body, span, edits, recall)
            )
            written[number] = edits, text
            # An element that goes takes the comma before it along; the first one has none, and is never reasoning.
            changes.append((span if text else (view.spans[number - 1][1], span[1]), text))
            touched.append(number)
    for edit in edits_of(standing, Insert):
        if index[edit.after] not in hidden:
            at = view.spans[index[edit.after]][1]
            changes.append(((at, at), b"," + dialect.user_message(edit.text)))
            touched.append(index[edit.after] + 1)
    return reached, _Placed(standing, tuple(changes), min(touched, default=None), written)


def standing_edits(notes: Notes, keys: Sequence[bytes], plan: Plan) -> tuple[int, tuple[Edit, ...]]:
    """The edits that have a message in this request (both ends of a range), in the plan's order. `keys`: the request's.

    In front of them the number of leading messages that decide what the plan does: all, where some of it does not stand yet.
    """

    def find(_: object) -> tuple[int, tuple[int, tuple[Edit, ...]]]:
        index = index_of(keys)
        lasts = [_last(edit, index) for edit in plan.edits]
        reached = 1 + max(lasts, default=-1)
        standing = tuple([edit for edit, last in zip(plan.edits, lasts, strict=True) if last < maxsize])
        return reached, (reached, standing)

    return notes.upto("standing", plan.edits, find)


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
        if isinstance(edit, _IN_PLACE):
            grouped[index[edit.at]].append(edit)
    return grouped


def _written(dialect: Dialect, body: bytes, span: Span, edits: Sequence[Edit], recall: Recall) -> bytes:
    """The new bytes of the message at `span`; made once per process for the same bytes and the same edits."""
    message = body[slice(*span)]
    replaced = {edit.part: edit for edit in edits if isinstance(edit, Replace)}
    texts = {part: edit.text for part, edit in replaced.items()}
    # What is only cut is still to be seen.
    keeping = tuple(part for part, edit in replaced.items() if edit.kind == "cap")
    strips = any(isinstance(edit, StripReasoning) for edit in edits)
    payloads = tuple(edit.payload for edit in edits if isinstance(edit, RestoreReasoning))

    def write(_: bytes) -> bytes:
        written = dialect.replace_results(message, texts, keeping) if texts else message
        for payload in payloads:
            written = dialect.restore_reasoning(written, payload)
        return dialect.strip_reasoning(written) if strips else written

    # Texts come from a stored plan: their hashes are known, so that only the message's bytes are looked at.
    return recall.get(("written", dialect.name, strips, payloads, tuple(texts.items()), keeping), message, write)
