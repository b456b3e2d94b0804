import asyncio
import gc
import weakref

import pytest

from proxy.server.deadline import Deadline

pytestmark = pytest.mark.anyio


class Loop:
    """Counts the timers that are asked of the running loop."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.timers = 0

    def time(self):
        return self.loop.time()

    def call_later(self, delay_s, callback):
        self.timers += 1
        return self.loop.call_later(delay_s, callback)


async def test_it_rings_once_and_not_before_its_time():
    loop = asyncio.get_running_loop()
    rung = asyncio.Queue()
    began = loop.time()
    Deadline(loop, lambda: rung.put_nowait(loop.time())).set(0.05)

    # A loop counts in milliseconds.
    assert await asyncio.wait_for(rung.get(), 30) - began > 0.045
    await asyncio.sleep(0.1)
    assert rung.empty()


async def test_putting_it_off_takes_no_further_timer():
    loop, rung = Loop(), asyncio.Event()
    deadline = Deadline(loop, rung.set)
    for _ in range(100):
        deadline.set(20.0)
    assert loop.timers == 1
    deadline.set(0.01)

    # An earlier time does.
    await asyncio.wait_for(rung.wait(), 30)
    assert loop.timers == 2


async def test_what_was_put_off_rings_at_the_later_time():
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    deadline = Deadline(loop, rung.set)
    deadline.set(0.02)
    began = loop.time()
    deadline.set(0.2)
    await asyncio.wait_for(rung.wait(), 30)

    assert loop.time() - began > 0.19


async def test_what_was_closed_never_rings_and_keeps_nothing_alive():
    class Owner:
        def __init__(self):
            self.deadline = Deadline(asyncio.get_running_loop(), self.ring)

        def ring(self):
            rung.append(1)

    rung, owner = [], Owner()
    deadline = owner.deadline
    deadline.set(3600.0)
    known = weakref.ref(owner)
    gc.disable()
    try:
        del owner
        assert known() is not None
        deadline.close()
        assert known() is None
    finally:
        gc.enable()
    deadline.set(0.01)
    await asyncio.sleep(0.1)

    assert rung == []
