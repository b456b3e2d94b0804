"""What was made of bytes and texts, kept within a bounded room, so that nothing is read twice."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from functools import wraps
from hashlib import blake2b
from typing import Any, TypeVar

from proxy.conversation.lines import Lines

T = TypeVar("T")
S = TypeVar("S", bound=Sized)

# Slot, key and a parsed message without its texts: 540 to 620 bytes by tracemalloc.
_ENTRY_BYTES = 640
_SMALL_BYTES = 2048
"""Of raw bytes: less is kept as it is, and what is made of it is not measured but taken for as large, twice."""
_DIGEST_BYTES = 16


class Recall:
    """A bounded memo from raw bytes to whatever was made of them; least recently used goes first.

    `room_bytes` bounds the memory of what was made, of its keys and of beginnings of whole bodies (`lines`), a third
    and two thirds of it. Of raw bytes that are not few only a digest is kept: they would double what a message takes.
    """

    def __init__(self, room_bytes: int = 64 * 1024 * 1024) -> None:
        self._room = room_bytes // 3
        self._held = 0
        self.lines = Lines(room_bytes - self._room)
        """Beginnings of whole bodies, for whoever reads the next one."""
        self._known: OrderedDict[tuple[Hashable, bytes], tuple[Any, int]] = OrderedDict()

    def get(self, kind: Hashable, raw: bytes, make: Callable[[bytes], T]) -> T:
        """What `make(raw)` gave when these bytes were first seen. `kind`: everything else that `make` depends on."""
        key = (kind, raw if len(raw) < _SMALL_BYTES else blake2b(raw, digest_size=_DIGEST_BYTES).digest())
        known = self._known
        found = known.get(key)
        if found is not None:
            known.move_to_end(key)
            value: T = found[0]
            return value
        value = make(raw)
        size_bytes = _ENTRY_BYTES + (3 * len(raw) if len(raw) < _SMALL_BYTES else _size_of(value))
        known[key] = (value, size_bytes)
        self._held += size_bytes
        while self._held > self._room and len(known) > 1:
            _, (_, old_bytes) = known.popitem(last=False)
            self._held -= old_bytes
        return value

    def __len__(self) -> int:
        return len(self._known)

    @property
    def held_bytes(self) -> int:
        """About the bytes of memory that is taken at the moment, without `lines`."""
        return self._held


def _size_of(value: object) -> int:
    """Memory of a value of ours: of texts exactly, which have one to four bytes a character."""
    found: list[object] = [value]
    for one in found:
        # A type that is made with `|` would be made anew each time.
        if isinstance(one, (tuple, list)):
            found += one
        elif fields := getattr(type(one), "__slots__", None):
            found += [getattr(one, name) for name in fields]
    return sum(map(sys.getsizeof, found))


_ITEM_BYTES = 120
"""A short string in a dict or a set, with its slot."""


def remembered(room_bytes: int) -> Callable[[Callable[[str], S]], Callable[[str], S]]:
    """Decorates a function that makes a collection of a text: it is asked once for each, as long as there is room.

    Texts and collections count by their size, not by their number: a few hundred large results would fill the memory.
    """
    return lambda make: _kept(make, str, lambda text, found: len(text) + _ITEM_BYTES * (1 + len(found)), room_bytes)


def by_hash(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Decorates a function of a text whose result is small, so small that keeping the text for it would be a waste.

    Texts are told apart by Python's hash of 64 bits, which nobody outside the process can aim at.
    """
    return lambda make: _kept(make, hash, lambda _text, _found: 1, most)


def _kept(
    make: Callable[[str], T], key_of: Callable[[str], Hashable], weight_of: Callable[[str, T], int], room: int
) -> Callable[[str], T]:
    """`make`, asked once for each text as long as the weights have room.

    Two generations: what was not asked for during a whole generation goes with it.
    """
    young: dict[Hashable, T] = {}
    old: dict[Hashable, T] = {}
    held = 0

    @wraps(make)
    def look(text: str) -> T:
        nonlocal young, old, held
        key = key_of(text)
        found = young.get(key)
        if found is None:
            found = old.get(key)
            if found is None:
                found = make(text)
            young[key] = found
            held += weight_of(text, found)
            if held * 2 > room:
                young, old, held = {}, young, 0
        return found

    return look
