"""Long steps of many calls, one in a turn of the event loop, so that between two of them everybody else has his."""

import asyncio
from collections import deque
from typing import TypeVar

from proxy.conversation.steps import Steps

T = TypeVar("T")


class Pace:
    """Whoever is about to take the loop for more than a millisecond asks for a turn first; first come, first served.

    A lock would not do: who does not wait while he holds it has given it back before the next one of the same turn asks.
    """

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        """In this turn of the loop, or promised in the next."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """At once where nobody else has this turn of the loop, else in one that is nobody else's."""
        if not self._taken:
            self._take()
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        await mine

    async def through(self, steps: Steps[T]) -> T:
        """What comes of a long computation, each of its steps in another turn of the loop."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            # Whoever had not asked for it: that step has filled this turn.
            if not self._taken:
                self._take()
            await self.turn()

    def _take(self) -> None:
        self._taken = True
        asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting:
            next_one = self._waiting.popleft()
            # Who was cancelled has left.
            if not next_one.done():
                next_one.set_result(None)
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._taken = False
