"""Originals in memory: a conversation's newest, each with its own end, and the conversations least recently added to go first."""

from collections.abc import Callable, Sequence

from proxy.ledger.originals import MOST_SESSION_BYTES, Original
from proxy.stores.shelf import Shelf

_ENTRY_BYTES = 300

_Kept = dict[bytes, tuple[Original, int, float]]
"""Id → the original, about how many bytes it takes, and the Unix time of its end. Only the attic has a hold of it."""


class Attic:
    """Bounded by bytes, in all and per conversation, and by age."""

    def __init__(self, *, room_bytes: int, ttl_s: float, clock: Callable[[], float]) -> None:
        self._shelf: Shelf[str, tuple[_Kept, int]] = Shelf(most=10_000, room_bytes=room_bytes, ttl_s=ttl_s, clock=clock)
        self._ttl_s = ttl_s
        self._clock = clock

    @property
    def held_bytes(self) -> int:
        """About how many bytes the originals take."""
        return self._shelf.held_bytes

    def add(self, session: str, originals: Sequence[Original]) -> None:
        """Keep them; what was kept first goes, where the conversation's room is full."""
        ends = self._clock() + self._ttl_s
        kept, held = self._shelf.get(session) or ({}, 0)
        for original in originals:
            if original.id in kept:
                held -= kept.pop(original.id)[1]
            size_bytes = _ENTRY_BYTES + len(original.text)
            kept[original.id] = (original, size_bytes, ends)
            held += size_bytes
        while held > MOST_SESSION_BYTES:
            held -= kept.pop(next(iter(kept)))[1]
        self._shelf.put(session, (kept, held), held)

    def get(self, session: str, ids: Sequence[bytes]) -> list[Original | None]:
        """In the order of `ids`."""
        kept, _ = self._shelf.get(session) or ({}, 0)
        now = self._clock()
        found = (kept.get(place) for place in ids)
        return [one[0] if one is not None and one[2] > now else None for one in found]
