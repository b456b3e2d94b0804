"""How long conversations were: read from the ledger now and then, never on the path of a call."""

import asyncio
from collections.abc import Callable

from proxy.errors import StoreError
from proxy.exchange.policy import NO_LENGTHS, Lengths
from proxy.ledger.store import Ledger

REFRESH_S = 600.0
ENDED_S = 3600.0
"""A conversation that nobody has continued for so long is taken for ended."""
_MOST = 200


class Lifetimes:
    """Numbers of calls of the newest conversations that have ended."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._due = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._lengths = NO_LENGTHS

    def known(self) -> Lengths:
        """What is known by now; begins to read anew in the background when that is old."""
        if self._clock() >= self._due and (self._reading is None or self._reading.done()):
            self._due = self._clock() + REFRESH_S
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return self._lengths

    async def aclose(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            sessions = await self._ledger.sessions(_MOST)
        except StoreError:
            return
        ended = self._clock() - ENDED_S
        self._lengths = Lengths(tuple(session.turns for session in sessions if session.last_at < ended))
