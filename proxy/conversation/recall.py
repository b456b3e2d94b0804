"""Parsed things, kept by the exact bytes they were parsed from, so that no message is read twice."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from proxy.conversation.lines import Lines

T = TypeVar("T")

# Slot, key and a parsed message of one short part: 460 bytes by tracemalloc; a call or a result takes a little more.
_ENTRY_BYTES = 512

_UNKNOWN = object()


class Recall:
    """A bounded memo from raw bytes to whatever was made of them; least recently used goes first.

    `room_bytes` bounds the raw bytes held as keys, with a fixed charge for each: what is made of them is of the same
    order of size, but even of the shortest message never smaller than that.
    """

    def __init__(self, room_bytes: int = 64 * 1024 * 1024) -> None:
        self._room = room_bytes
        self._held = 0
        self.lines = Lines()
        """Beginnings of whole bodies, for whoever reads the next one."""
        self._known: OrderedDict[tuple[Hashable, bytes], object] = OrderedDict()

    def get(self, kind: Hashable, raw: bytes, make: Callable[[bytes], T]) -> T:
        """What `make(raw)` gave when these bytes were first seen. `kind`: everything else that `make` depends on."""
        key = (kind, raw)
        known = self._known
        found = known.get(key, _UNKNOWN)
        if found is not _UNKNOWN:
            # Every look-up compares the bytes: as long as nothing will have to go, the order is left alone.
            if self._held * 2 > self._room:
                known.move_to_end(key)
            return cast("T", found)
        value = make(raw)
        known[key] = value
        self._held += len(raw) + _ENTRY_BYTES
        while self._held > self._room and len(known) > 1:
            (_, old), _ = known.popitem(last=False)
            self._held -= len(old) + _ENTRY_BYTES
        return value

    def __len__(self) -> int:
        return len(self._known)

    @property
    def held_bytes(self) -> int:
        """Raw bytes held at the moment, with the charge for each entry."""
        return self._held
