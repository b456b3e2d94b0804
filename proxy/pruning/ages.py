"""Which older results may be replaced: an account that grows with its conversation.

Of hundreds of results a turn adds one or two. So whatever never changes about a result under one plan is looked at when
it comes in, and what adds up is added up: how old a result is (the tokens of those behind it), whether its turn is whole,
whether a later call has brought the same again. A decision then looks at those alone that may go.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from proxy.conversation.edit import Edit, Replace, edits_of
from proxy.conversation.model import Message, ToolResult
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.results import Made, Standing
from proxy.pruning.situation import Situation
from proxy.pruning.standing import first_open, is_protected, results_by_message

_BEFORE, _MESSAGE = attrgetter("before"), attrgetter("message")


class Protection(NamedTuple):
    """Tokens of results that must stand behind a result before it may go."""

    least: float
    most: float
    """The same for those that `literal` picks."""
    literal: Callable[[Standing], bool] = lambda _: False
    """The same object at each call, or everything is looked at again."""


class _Row(NamedTuple):
    """A result in the account."""

    key: bytes
    """Prefix key of its message, which says of which conversations it is a part."""
    message: int
    number: int
    """Of the result among those of its message."""
    before: int
    """Tokens of the results in front of it."""
    call_message: int
    calls: int
    made: Made | None
    taken: tuple[int, ...] | None
    """Positions of those that it supersedes; None where it supersedes nothing, whatever came before."""
    may_go: bool
    """As far as it is for the result alone to say."""
    literal: bool
    of: tuple[bytes, int] | None
    """Key and part of the result that it refers to."""


class Ages:
    """The results of a conversation's last request, for the next one to go on from.

    Conversations that begin alike may share one: results that the other one has not are taken back. No text is held here:
    the account may outlive the messages of a conversation that went another way.
    """

    def __init__(self) -> None:
        self._given: object = None
        self._forget()

    def _forget(self) -> None:
        self._edits: tuple[Edit, ...] = ()
        self._rows: list[_Row] = []
        self._tokens = 0
        self._upto = (0, b"")
        """Number of messages that were looked at, and the key behind them."""
        self._free: list[int] = []
        """Positions of rows that may go, oldest first ..."""
        self._literal: list[int] = []
        """... and of those that are protected longer."""
        self._pointing: list[int] = []
        self._owed: dict[int, int] = {}
        """Message with calls → how many of them have no result; below 0: there are results too many."""
        self._open: dict[Made, tuple[int, ...]] = {}
        """Call → positions of its results that no later one supersedes."""
        self._superseded: set[int] = set()

    def replaceable(self, situation: Situation, protection: Protection, policy: PrunePolicy) -> list[Standing]:
        """The results that age does not protect and the rules allow to be replaced, in order; the price is not looked at yet.

        A result that a later call of the same tool with the same arguments supersedes is old at any age (`dedupe`). A
        result that a reference points to is as young as that reference.
        """
        results = results_by_message(situation)
        self._catch_up(situation, results, protection, policy)
        rows = self._rows
        start = bisect_left(rows, first_open(situation), key=_MESSAGE)
        aged, surely = (self._older_than(tokens) for tokens in (protection.least, protection.most))
        aged_literal = min(aged, surely)
        old = {*_within(self._free, start, aged), *_within(self._literal, start, aged_literal)}
        if policy.dedupe:
            old.update([at for at in self._superseded if at >= start and rows[at].may_go])
        if not old:
            return []
        superseded = self._superseded if policy.dedupe else frozenset()
        referred = {
            rows[at].of
            for at in self._pointing
            if at >= max(start, aged_literal if rows[at].literal else aged) and at not in superseded
        }
        limit = min(situation.seen, _user_turn(situation.messages, policy.protect_user_turns))
        newest = len(rows) - policy.keep_recent_tool_results
        found = [
            results[row.message][row.number]
            for at in sorted(old)
            if at < newest and (row := rows[at]).message < limit and not self._owed[row.call_message]
        ]
        return [standing for standing in found if (standing.key, standing.part) not in referred]

    def _older_than(self, tokens: float) -> int:
        """The number of leading results behind each of which stand more tokens than these, its own included."""
        return bisect_left(self._rows, self._tokens - math.floor(tokens), key=_BEFORE)

    def _catch_up(
        self,
        situation: Situation,
        results: Sequence[Sequence[Standing]],
        protection: Protection,
        policy: PrunePolicy,
    ) -> None:
        keys, edits = situation.keys, situation.plan.edits
        given = (protection.literal, policy.min_chars, policy.protected_tools)
        if given != self._given or edits[: len(self._edits)] != self._edits:
            self._forget()
        elif len(edits) > len(self._edits):
            self._cut({edit.at for edit in edits_of(edits[len(self._edits) :], Replace)})
        # Whatever trips below leaves half an account, which the next request must not go on from.
        self._given = None
        self._edits = edits
        count, key = self._upto
        if not (0 < count <= len(keys) and keys[count - 1] == key):
            while self._rows and not _has(keys, self._rows[-1]):
                self._take_back()
            count = self._rows[-1].message + 1 if self._rows else 0
        for message in range(count, len(keys)):
            for number, standing in enumerate(results[message]):
                self._add(number, standing, protection, policy)
        self._upto = (len(keys), keys[-1]) if keys else (0, b"")
        self._given = given

    def _cut(self, changed: set[bytes]) -> None:
        """Take back all from the first row on whose message has one of these keys."""
        keys = [row.key for row in self._rows]
        if changed.isdisjoint(keys):
            return
        first = next(at for at, key in enumerate(keys) if key in changed)
        if 2 * first < len(keys):
            # Mostly it is old results that change: to begin anew takes less than to take back nearly all.
            self._forget()
        while len(self._rows) > first:
            self._take_back()
        self._upto = (0, b"")

    def _add(self, number: int, standing: Standing, protection: Protection, policy: PrunePolicy) -> None:
        at, made, edit, result = len(self._rows), standing.made, standing.edit, standing.result
        may_go = not (
            standing.gone or result.is_error or result.fixed or is_protected(standing.tool, policy.protected_tools)
        )
        may_go = may_go and (len(standing.text) > policy.min_chars or bool(result.media))
        of = (edit.of, edit.of_part) if edit is not None and edit.of else None
        literal = (may_go or of is not None) and protection.literal(standing)
        taken: tuple[int, ...] | None = None
        if made is not None:
            earlier = self._open.get(made, ())
            if edit is None and not result.is_error:
                taken = earlier
                self._superseded.update(taken)
                self._open[made] = (at,)
            else:
                self._open[made] = (*earlier, at)
        if may_go:
            (self._literal if literal else self._free).append(at)
        if of is not None:
            self._pointing.append(at)
        self._owed[standing.call_message] = self._owed.get(standing.call_message, standing.calls) - 1
        self._rows.append(
            _Row(
                standing.key,
                standing.message,
                number,
                self._tokens,
                standing.call_message,
                standing.calls,
                made,
                taken,
                may_go,
                literal,
                of,
            )
        )
        self._tokens += standing.tokens

    def _take_back(self) -> None:
        row = self._rows.pop()
        at = len(self._rows)
        self._tokens = row.before
        self._owed[row.call_message] += 1
        if self._owed[row.call_message] == row.calls:
            del self._owed[row.call_message]
        if row.made is not None:
            still_open = self._open.pop(row.made)
            earlier = still_open[:-1] if row.taken is None else row.taken
            self._superseded.difference_update(row.taken or ())
            if earlier:
                self._open[row.made] = earlier
        for positions in (self._free, self._literal, self._pointing):
            if positions and positions[-1] == at:
                positions.pop()


def _has(keys: Sequence[bytes], row: _Row) -> bool:
    return row.message < len(keys) and keys[row.message] == row.key


def _within(positions: Sequence[int], start: int, end: int) -> Iterator[int]:
    """Those of the ascending positions from `start` up to `end`."""
    yield from positions[bisect_left(positions, start) : bisect_left(positions, end)]


def _user_turn(messages: Sequence[Message], turns: int) -> int:
    """Index of the n-th last user message that holds a person's words; the end for 0."""
    limit = len(messages)
    if turns:
        asked = [index for index, message in enumerate(messages) if message.role == "user" and not _results(message)]
        limit = asked[-turns] if len(asked) >= turns else 0
    return limit


def _results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)
