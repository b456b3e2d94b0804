"""What is still to do when a call's last byte is out: done whatever happens to the call, and waited for by the process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SETTLE_S = 5.0
"""How long the end of the process waits for what is under way."""

_TOGETHER = 8
"""More gain nothing, and a group waits for its store as one."""

_under_way: set[asyncio.Task[None]] = set()


class Settling(Generic[T]):
    """Gives what ends in one turn of the event loop to `work`, some at a time, each time in a task of its own.

    Together, since each of its steps is then done several times in a row, while its code and data are in the processor's
    caches: under load, that is an eighth of a call's CPU. In the next turn, so that it holds up no answer; all of it in that
    one, since what ends faster than it is settled would pile up, and a conversation's next call may come at once.
    """

    def __init__(self, work: Callable[[list[T]], Awaitable[None]]) -> None:
        self._work = work
        self._group: list[T] = []
        """That has room, and waits for its turn."""

    def add(self, one: T) -> None:
        """To be settled soon."""
        if not 0 < len(self._group) < _TOGETHER:
            self._group = []
            task = asyncio.get_running_loop().create_task(self._settle(self._group))
            _under_way.add(task)
            task.add_done_callback(_under_way.discard)
        self._group.append(one)

    async def _settle(self, group: list[T]) -> None:
        if group is self._group:
            self._group = []
        # Whoever made the work has said what there is to say.
        with contextlib.suppress(Exception):
            await self._work(group)


async def settled() -> None:
    """Wait for everything that is still under way, `SETTLE_S` at most. For the end of the process."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while _under_way:
                await asyncio.wait(_under_way)
