"""Timers for what is put off all the time and hardly ever comes."""

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """Calls `ring` when its time has come, unless it was put off before.

    Putting it off leaves the loop's timer alone: that one looks again when it goes off. A kept connection so needs one
    timer for hundreds of calls, where setting and cancelling one costs as much as parsing a head. To be closed by whoever
    made it: until then the loop may know it, and with it whatever it rings.
    """

    __slots__ = ("_due", "_loop", "_ring", "_rings_at", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring: Callable[[], None] | None = ring
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf
        """When the timer goes off; never while there is none."""

    def set(self, delay_s: float) -> None:
        """So long from now, whatever was set before."""
        due = self._due = self._loop.time() + delay_s
        if due < self._rings_at:
            self._start(due, delay_s)

    def close(self) -> None:
        """Never again: nothing is left in the loop, and nothing here that keeps its owner."""
        self._due = self._ring = None
        self._rings_at = -inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, due: float, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._look)
        self._rings_at = due

    def _look(self) -> None:
        self._timer = None
        self._rings_at = inf
        if self._due is None or self._ring is None:
            return
        left_s = self._due - self._loop.time()
        if left_s > 0:
            self._start(self._due, left_s)
        else:
            self._due = None
            self._ring()
