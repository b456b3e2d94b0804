"""Originals on Redis: a hash for each conversation whose field names tell when, how large and which.

So the names alone say what goes when a conversation's room is full, and no value is read for it. Each value has the Unix
time of its end in front, by the writer's clock, since the key lives as long as its newest.
"""

import struct
from collections.abc import Iterable, Sequence

from proxy.ledger.originals import MOST_SESSION_BYTES, Original
from proxy.stores.sealed import Sealing

_END = struct.Struct(">d")
_FIELD = struct.Struct(">dI16s")
"""Unix time, bytes of the value, id."""


def fields_of(
    session: str, originals: Sequence[Original], sealing: Sealing, *, now: float, ttl_s: float
) -> dict[bytes, bytes]:
    """Fields and values to be set. `now`: Unix time."""
    end = _END.pack(now + ttl_s)
    values = [(original.id, end + sealing.pack_original(session, original)) for original in originals]
    return {_FIELD.pack(now, len(value), place): value for place, value in values}


def too_much(fields: Iterable[bytes]) -> list[bytes]:
    """Fields of the oldest originals, so many that the others fit into a conversation's room."""
    held, over = 0, []
    for field in sorted(fields, reverse=True):
        held += _FIELD.unpack(field)[1]
        if held > MOST_SESSION_BYTES:
            over.append(field)
    return over


def newest_by_id(fields: Iterable[bytes]) -> dict[bytes, bytes]:
    """Id → the field under which it was kept last."""
    return {_FIELD.unpack(field)[2]: field for field in sorted(fields)}


def opened(session: str, place: bytes, value: bytes | None, sealing: Sealing, now: float) -> Original | None:
    """The original, unless its life is over."""
    if value is None or len(value) < _END.size or _END.unpack_from(value)[0] <= now:
        return None
    return sealing.unpack_original(session, place, value[_END.size :])
