"""Memory that was freed goes back to the system: left alone, glibc keeps it in pieces between what is still in use.

Large blocks it maps one by one and unmaps when they are freed, but each that is freed raises the size from which it does so,
up to 32 MB. From then on bodies of some megabytes lie among small objects that stay: 50 MB more after a few of 8 MB.
"""

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

EVERY_S = 20.0
"""Rare enough to cost nothing, often enough that there is never much: for that long nobody else gets any memory."""

_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
"""malloc.h"""
_LARGE_BYTES: Final = 1024 * 1024
"""Below, mapping costs more than it brings: a page fault for every 4 KB, at every turn of a chat."""
_SPARE_BYTES: Final = 2 * 1024 * 1024
"""What may lie free at the heap's end."""


def map_large_blocks() -> bool:
    """Have large blocks mapped one by one for good; False where the C library has no such option (musl, macOS)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGE_BYTES) and mallopt(_TRIM_THRESHOLD, _SPARE_BYTES))


def trimmer() -> Callable[[], object] | None:
    """What gives whole free pages back; None where the C library does so by itself or cannot."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return lambda: trim(0)


@asynccontextmanager
async def given_back(every_s: float = EVERY_S, trim: Callable[[], object] | None = None) -> AsyncIterator[None]:
    """While this is open, free memory is given back at once, for starting leaves some, and now and then, on a thread."""
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
        await asyncio.to_thread(trim)
        await asyncio.sleep(every_s)
