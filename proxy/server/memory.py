"""Memory that was freed goes back to the system: left alone, glibc keeps it in pieces between what is still in use."""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

EVERY_S = 20.0
"""Rare enough to cost nothing, often enough that there is never much: for that long nobody else gets any memory."""


def trimmer() -> Callable[[], object] | None:
    """What gives whole free pages back; None where the C library does so by itself or cannot."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return lambda: trim(0)


@asynccontextmanager
async def given_back(every_s: float = EVERY_S, trim: Callable[[], object] | None = None) -> AsyncIterator[None]:
    """While this is open, free memory is given back now and then, on a thread."""
    trim = trim or trimmer()
    if trim is None:
        yield
        return
    task = asyncio.get_running_loop().create_task(_now_and_then(every_s, trim))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _now_and_then(every_s: float, trim: Callable[[], object]) -> None:
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(trim)
