"""An answer's reasoning in the form in which the ledger keeps it, until a client turns out to have lost it.

{"sealed": true, "slots": [[position, value], …]}      position: of the message within the answer that it goes to
                                                       value: the dialect's own, handed back to `restore_reasoning`
"""

from collections.abc import Sequence
from typing import Any

from proxy.dialects.fields import mapping, parsed
from proxy.wire.body import dumps

MOST_BYTES = 256 * 1024
"""Longer reasoning is not kept; 64k tokens of it are about as much."""


class Room:
    """What may still be kept of one answer."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def take(self, *texts: object) -> bool:
        """Whether these texts still fit; once they do not, nothing does any more."""
        self._left -= sum(len(text) for text in texts if isinstance(text, str))
        return self._left >= 0

    @property
    def exceeded(self) -> bool:
        """Whether something did not fit: what is left is no whole."""
        return self._left < 0


def packed(slots: Sequence[tuple[int, Any]], *, sealed: bool) -> str:
    """The stored form; empty for nothing, too much, or what is nested too deep to be written. `sealed`: signed or encrypted, so bound to what stood before."""
    if not slots:
        return ""
    try:
        raw = dumps({"sealed": sealed, "slots": slots})
    except RecursionError:
        return ""
    return raw.decode() if len(raw) <= MOST_BYTES else ""


def is_sealed(kept: str) -> bool:
    """Whether the provider may have bound this reasoning to everything before it."""
    return mapping(parsed(kept.encode())).get("sealed") is True


def restorations(kept: str) -> tuple[tuple[int, str], ...]:
    """Position and payload of each message of the answer that gets something back."""
    slots = mapping(parsed(kept.encode())).get("slots", ())
    return tuple((position, dumps(value).decode()) for position, value in slots)
