"""Whose fault a late answer is."""

import asyncio
import time

import pytest

from proxy.stores.patience import at_most

pytestmark = pytest.mark.anyio


async def test_silence_ends_after_the_time():
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        async with at_most(0.1):
            await asyncio.Event().wait()
    assert time.monotonic() - before >= 0.1


async def test_an_answer_that_came_in_time_counts_though_the_loop_was_held_up():
    async def answer(_reader, writer):
        writer.write(b"x")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        async with at_most(0.05):
            # Both ends share this loop: the answer is on its way only once the loop turns again, after the time is up.
            time.sleep(0.2)
            told = await reader.read(1)
        writer.close()
        await writer.wait_closed()

    assert told == b"x"


async def test_what_ends_by_itself_leaves_no_timer():
    async with at_most(0.02):
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    assert asyncio.current_task().cancelling() == 0


async def test_cancelling_from_outside_stays_a_cancelling():
    async def work():
        async with at_most(30.0):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
