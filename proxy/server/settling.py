"""What is still to do when a call's last byte is out: done whatever happens to the call, and waited for by the process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SETTLE_S = 5.0
"""How long the end of the process waits for what is under way."""

_TOGETHER = 8
"""More are settled in several turns of the loop: one of so many takes a millisecond, with many new edits some."""

_under_way: set[asyncio.Task[None]] = set()


class Settling(Generic[T]):
    """Gives what ends in one turn of the event loop to `work`, all together, in a task of its own.

    Together, since each of its steps is then done several times in a row, while its code and data are in the processor's
    caches: under load, that is an eighth of a call's CPU. In the next turn, so that it holds up no answer.
    """

    def __init__(self, work: Callable[[list[T]], Awaitable[None]]) -> None:
        self._work = work
        self._ended: list[T] = []

    def add(self, one: T) -> None:
        """To be settled soon."""
        self._ended.append(one)
        if len(self._ended) == 1:
            self._begin()

    def _begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._settle())
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)

    async def _settle(self) -> None:
        ended, self._ended = self._ended[:_TOGETHER], self._ended[_TOGETHER:]
        if self._ended:
            # Of their own: they do not wait for what these wait for.
            self._begin()
        # Whoever made the work has said what there is to say.
        with contextlib.suppress(Exception):
            await self._work(ended)


async def settled() -> None:
    """Wait for everything that is still under way, `SETTLE_S` at most. For the end of the process."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while _under_way:
                await asyncio.wait(_under_way)
