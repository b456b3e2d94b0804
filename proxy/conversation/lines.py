"""What the turns of one line have in common, so that a turn pays only for what it adds.

A client resends its whole history. `Lines` finds the earlier body that a new one begins with, by comparing bytes; `Notes`
carry on what was found out about each of the messages that both share. Nothing here changes what comes out: a line that is
not found, or was dropped for lack of room, is read anew.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

S = TypeVar("S")
T = TypeVar("T")
E = TypeVar("E")

_LEAST_PLACE = 12
"""Bodies below 2**12 bytes are read anew as fast as they are found."""
_SAMPLE_BYTES = 48
_MOST_AT_A_PLACE = 4
"""Lines that are compared because the same bytes stand at one place in them."""
_LAST_FEW = 4
"""Messages at a body's end that are compared for themselves."""
_PARSED = 2
"""A body and what was parsed of it, which may be held by nobody else any more."""
_MESSAGE_BYTES = 1280
"""Of a message: what it is parsed into besides its texts, its places in the body, what was noted about it; measured."""


class _Under(NamedTuple):
    """A value under a plan."""

    edits: tuple[Any, ...] = ()
    reached: int = 0
    """The number of leading messages that it depends on."""
    value: Any = None


_NOTHING = _Under()
_PLANS_A_CALL = 3
"""Under so many plans a call is looked at: the inherited one, with what is edited at arrival, and with what is pruned."""


class Notes:
    """What was found out about the messages of a request, message by message, for the next request of its line.

    Who keeps what, by name; where a value depends on more than the messages (a scale, an origin), its name is a tuple:

        placed, standing            dialects.lens: the plan's splices; its edits that have a message here
        hash                        exchange.decided: what tells the plan apart
        replaced, tokens            exchange.weigh: its replacements; exchange.measure: what each message weighs under it
        ends, keys                  exchange.receive: where earlier requests may have ended; prefix keys
        weights, totals, reasoning  exchange.weigh: what each message weighs, whole and in reasoning
        pairs, sizes                … its results with their calls, and what they weigh
        results, edited             … its results as pruning sees them: as they came, and under the plan
        marked                      exchange.situations: where a client's own summary ends
        sealed                      exchange.counted: reasoning that nobody can read
        passages, ages, lasting     pruning.strategies.passages, pruning.ages, pruning.lasting: one object a conversation
        tally                       exchange.tally: likewise
    """

    __slots__ = ("_before", "_carried", "_own", "_under", "_under_before", "shared")

    def __init__(self, shared: int = 0, earlier: "Notes | None" = None, *, goes_on: bool = True) -> None:
        """`goes_on`: most of the earlier request is shared, so that it is the same conversation."""
        self.shared = shared
        """Number of leading messages that the earlier request has had, too, byte for byte."""
        self._own: dict[Hashable, tuple[Any, ...]] = {}
        self._before: dict[Hashable, tuple[Any, ...]] = {}
        self._under: dict[Hashable, tuple[_Under, ...]] = {}
        self._under_before: dict[Hashable, tuple[_Under, ...]] = {}
        self._carried: dict[Hashable, object] = {}
        if earlier is not None:
            # Only what the earlier request noted itself: the notes of all requests before it need not live on.
            self._before, self._under_before = earlier._own, earlier._under  # noqa: SLF001 (one of this class)
            if goes_on:
                self._carried = earlier._carried  # noqa: SLF001 (one of this class)

    def carried(self, name: Hashable, make: Callable[[], T]) -> T:
        """The one object under this name, for all requests that go on with one another, also where they part."""
        found = self._carried.get(name)
        if found is None:
            found = self._carried[name] = make()
        return cast("T", found)

    def behind(self, count: int) -> "Notes":
        """These notes, for the messages behind the first `count`, which are of another kind."""
        self.shared = max(0, self.shared - count)
        return self

    def known(self, name: Hashable) -> int:
        """The number of leading messages of which there are values under this name."""
        return min(self.shared, len(self._before.get(name, ())))

    def extended(self, name: Hashable, make: Callable[[tuple[T, ...]], Iterable[T]]) -> tuple[T, ...]:
        """One value for each message. `make` gets those that are known, from the first message on, and gives the rest.

        `name`: everything that a value depends on besides the messages up to its own.
        """
        found = self._own.get(name)
        if found is None:
            known = self._before.get(name, ())[: self.shared]
            found = self._own[name] = known + tuple(make(known))
        return found

    def mapped(self, name: Hashable, make: Callable[[S], T], given: Sequence[S]) -> tuple[T, ...]:
        """The same where `make` is asked for each value alone: of what is `given` for its message."""
        found = self._own.get(name)
        if found is None:
            known = self._before.get(name, ())[: self.shared]
            found = self._own[name] = known + tuple(map(make, given[len(known) :]))
        return found

    def under(
        self, name: Hashable, edits: tuple[E, ...], make: Callable[[T | None, tuple[E, ...]], tuple[int, T]]
    ) -> T:
        """A value that depends on a plan's `edits` and on leading messages; where the plan has grown, so does the value.

        `make` gets the value under the plan's first edits and the edits behind those, or None and all edits where none
        is known that still holds. It gives also the number of leading messages that those edits are about.
        """
        known = self._under.get(name)
        if known is None:
            known = tuple([one for one in self._under_before.get(name, ()) if one.reached <= self.shared])
            self._under[name] = known
        for one in known:
            if one.edits == edits:
                return cast("T", one.value)
        earlier = next((one for one in known if edits[: len(one.edits)] == one.edits), _NOTHING)
        reached, value = make(earlier.value, edits[len(earlier.edits) :])
        self._under[name] = (_Under(edits, max(earlier.reached, reached), value), *known[: _PLANS_A_CALL - 1])
        return value


@dataclass(slots=True, eq=False)
class _Line:
    """The beginning of a body."""

    head: memoryview
    """Not a copy: whoever compares bytes with it compares memory."""
    ends: Sequence[int]
    value: object
    size_bytes: int
    places: list[tuple[str, int, bytes]]


class Lines:
    """Beginnings of earlier bodies. Bounded by the memory that they take; least recently used goes first.

    A beginning is looked up by a few bytes at places whose distance doubles, and then compared whole, which costs about
    as much as copying it once.
    """

    def __init__(self, room_bytes: int = 43 * 1024 * 1024) -> None:
        self._room = room_bytes
        self._held = 0
        self._lines: OrderedDict[_Line, None] = OrderedDict()
        self._at: dict[tuple[str, int, bytes], list[_Line]] = {}

    def find(self, kind: str, body: bytes) -> tuple[object, int] | None:
        """What was kept of a line that begins as this body does, and how many of its `ends` both have."""
        for place in range(len(body).bit_length() - 1, _LEAST_PLACE - 1, -1):
            for line in reversed(self._at.get(_place(kind, place, body), ())):
                shared = _shared(body, line)
                if shared:
                    self._lines.move_to_end(line)
                    return line.value, shared
        return None

    def keep(self, kind: str, body: bytes, ends: Sequence[int], value: object, *, instead_of: object = None) -> None:
        """Remember `value` for bodies that begin as this one does, up to one of the `ends` (ascending).

        `instead_of`: the value of an earlier line of which this one has so much that it can go.
        """
        if not ends or ends[-1] < 1 << _LEAST_PLACE or not self.has_room(len(body), len(ends)):
            return
        head = memoryview(body)[: ends[-1]]
        top = len(head).bit_length() - 1
        # Twice, since the end may be what the next body has otherwise.
        places = [_place(kind, at, body) for at in range(max(_LEAST_PLACE, top - 1), top + 1)]
        line = _Line(head, ends, value, _size_of(len(body), len(ends)), places)
        for place in line.places:
            for old in tuple(self._at.get(place, ())):
                # This one goes on with it.
                goes = old.value is instead_of if instead_of is not None else body.startswith(old.head, 0, len(head))
                if goes:
                    self._drop(old)
            there = self._at.setdefault(place, [])
            there.append(line)
            if len(there) > _MOST_AT_A_PLACE:
                self._drop(there[0])
        self._lines[line] = None
        self._held += line.size_bytes
        while self._held > self._room:
            self._drop(next(iter(self._lines)))

    def has_room(self, body_bytes: int, messages: int) -> bool:
        """Whether so large a body would be kept."""
        return _size_of(body_bytes, messages) <= self._room

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def held_bytes(self) -> int:
        """About the bytes of memory that is taken at the moment."""
        return self._held

    def _drop(self, line: _Line) -> None:
        for place in line.places:
            there = self._at.get(place)
            if there is not None and line in there:
                there.remove(line)
                if not there:
                    del self._at[place]
        if line in self._lines:
            del self._lines[line]
            self._held -= line.size_bytes


def _size_of(body_bytes: int, messages: int) -> int:
    return _PARSED * body_bytes + _MESSAGE_BYTES * messages


def _place(kind: str, place: int, body: bytes) -> tuple[str, int, bytes]:
    return kind, place, body[(1 << place) - _SAMPLE_BYTES : 1 << place]


def _shared(body: bytes, line: _Line) -> int:
    """The number of ends up to which both are the same."""
    low, high, same_bytes = 0, len(line.ends), 0
    # Mostly all are, or all but the last few: marks move, clients change their last words. So nearly everything is compared
    # at one go, and what was found to be the same not again.
    middle = max(1, high - _LAST_FEW)
    while low < high:
        end = line.ends[middle - 1]
        if body.startswith(line.head[same_bytes:end], same_bytes):
            low, same_bytes = middle, end
        else:
            high = middle - 1
        middle = (low + high + 1) // 2
    return low
