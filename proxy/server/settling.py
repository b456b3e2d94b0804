"""What is still to do when a call's last byte is out: done in bounded time, shielded, whatever happens to the call."""

import asyncio
from collections.abc import Coroutine

SETTLE_S = 5.0
"""How long a call waits for its settling; after that it goes on without anybody waiting."""

_under_way: set[asyncio.Task[None]] = set()


async def settle(work: Coroutine[None, None, None]) -> None:
    """Do it and wait for it, `SETTLE_S` at most. Its errors are its own: none is raised here."""
    task = asyncio.get_running_loop().create_task(work)
    _under_way.add(task)
    task.add_done_callback(_done)
    # One turn of the loop is mostly all it takes, and `wait` costs more than the work.
    await asyncio.sleep(0)
    if task.done():
        return
    # `wait` does not cancel what it waits for, neither when time is up nor when the call itself is cancelled.
    await asyncio.wait({task}, timeout=SETTLE_S)


async def settled() -> None:
    """Wait, as long as a call would, for everything that is still under way. For the end of the process."""
    if _under_way:
        await asyncio.wait(_under_way, timeout=SETTLE_S)


def _done(task: asyncio.Task[None]) -> None:
    _under_way.discard(task)
    if not task.cancelled():
        # Looked at, so that asyncio does not report it as lost.
        task.exception()
