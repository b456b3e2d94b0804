"""A bounded place in memory: by number, by bytes and by age; what was used longest ago goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shelf(Generic[K, V]):
    """Values under keys. `clock` gives Unix seconds; the caller says how large each value is."""

    def __init__(self, *, most: int, room_bytes: int, ttl_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._room = room_bytes
        self._ttl_s = ttl_s
        # A value that claims more than a whole life left was written before the clock was set back: it must not stay
        # for as long as the clock was wrong. Twice the life leaves room for clocks that differ between machines.
        self._longest_s = 2 * ttl_s
        self._clock = clock
        self._held: OrderedDict[K, tuple[V, int, float]] = OrderedDict()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: K) -> bool:
        """Whether there is a value, alive or not; does not count as use."""
        return key in self._held

    @property
    def held_bytes(self) -> int:
        """Sum of the sizes that callers named."""
        return self._held_bytes

    def get(self, key: K) -> V | None:
        """The value, now the most recently used; None when unknown or older than its life."""
        return self.get_all((key,))[0] if key in self._held else None

    def get_all(self, keys: Iterable[K]) -> list[V | None]:
        """The same of several keys, as of one moment."""
        now = self._clock()
        latest, held = now + self._longest_s, self._held
        found: list[V | None] = []
        for key in keys:
            entry = held.get(key)
            if entry is None:
                found.append(None)
            elif now < entry[2] <= latest:
                held.move_to_end(key)
                found.append(entry[0])
            else:
                self.drop(key)
                found.append(None)
        return found

    def put(self, key: K, value: V, size_bytes: int, expires: float | None = None) -> bool:
        """Keep the value for the shelf's life, or until `expires` (Unix seconds); False when it is too large to fit."""
        if key in self._held:
            self.drop(key)
        if size_bytes > self._room:
            return False
        self._held[key] = (value, size_bytes, self._clock() + self._ttl_s if expires is None else expires)
        self._held_bytes += size_bytes
        while self._held_bytes > self._room or len(self._held) > self._most:
            _, (_, old_bytes, _) = self._held.popitem(last=False)
            self._held_bytes -= old_bytes
        return True

    def renew(self, key: K) -> bool:
        """Begin the value's life anew; False when it is not here."""
        value = self.get(key)
        if value is None:
            return False
        held, size_bytes, _ = self._held[key]
        self._held[key] = (held, size_bytes, self._clock() + self._ttl_s)
        return True

    def drop(self, key: K) -> None:
        """Forget the value, if it is here."""
        entry = self._held.pop(key, None)
        if entry is not None:
            self._held_bytes -= entry[1]

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()
        self._held_bytes = 0

    def sweep(self, steps: int) -> None:
        """Look at the `steps` least recently used values and remove those whose life is over."""
        now = self._clock()
        latest = now + self._longest_s
        dead = [key for key, entry in islice(self._held.items(), steps) if not now < entry[2] <= latest]
        for key in dead:
            self.drop(key)
