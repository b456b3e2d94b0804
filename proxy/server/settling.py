"""What is still to do when a call's last byte is out: done whatever happens to the call, and waited for by the process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")

SETTLE_S = 5.0
"""How long the end of the process waits for what is under way."""

_TOGETHER = 8
"""More gain nothing, and a group waits for its store as one."""

_tasks: set[asyncio.Task[None]] = set()
_under_way: set[asyncio.Task[None]] = set()
"""Those that have something to do."""
_asking: set[asyncio.Event] = set()
"""Of those who wait until none has."""


def _rests(task: asyncio.Task[None]) -> None:
    _under_way.discard(task)
    for done in _asking:
        done.set()


class Settling(Generic[T]):
    """Gives what ends in one turn of the event loop to `work`, some at a time, all that wait for something at the same time.

    Together, since each of its steps is then done several times in a row, while its code and data are in the processor's
    caches: under load, that is an eighth of a call's CPU. In the next turn, so that it holds up no answer; all of it in that
    one, since what ends faster than it is settled would pile up, and a conversation's next call may come at once. Mostly by
    the task that settled the group before: another one for each would take as long as writing the log.
    """

    def __init__(self, work: Callable[[list[T]], Awaitable[None]]) -> None:
        self._work = work
        self._group: list[T] = []
        """That has room, and waits for its turn."""
        self._idle: tuple[asyncio.Task[None], asyncio.Future[list[T]]] | None = None
        """A task that has nothing to do, and what it waits for."""

    def add(self, one: T) -> None:
        """To be settled soon."""
        if not 0 < len(self._group) < _TOGETHER:
            self._group = []
            self._begin(self._group)
        self._group.append(one)

    def _begin(self, group: list[T]) -> None:
        idle, self._idle = self._idle, None
        # At the end of the process it may have been cancelled.
        if idle is not None and not idle[1].done():
            task, waits = idle
            waits.set_result(group)
        else:
            task = asyncio.get_running_loop().create_task(self._settle(group))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)
            task.add_done_callback(_rests)
        _under_way.add(task)

    async def _settle(self, group: list[T]) -> None:
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())
        while True:
            if group is self._group:
                self._group = []
            # Whoever made the work has said what there is to say.
            with contextlib.suppress(Exception):
                await self._work(group)
            if self._idle is not None:
                return
            # A call holds whole bodies.
            del group
            _rests(task)
            waits: asyncio.Future[list[T]] = loop.create_future()
            self._idle = task, waits
            group = await waits


async def settled() -> None:
    """Wait for everything that is still under way, `SETTLE_S` at most. For the end of the process."""
    done = asyncio.Event()
    _asking.add(done)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while _under_way:
                done.clear()
                await done.wait()
    _asking.discard(done)
