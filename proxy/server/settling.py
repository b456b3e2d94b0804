"""What is still to do when a call's last byte is out: done whatever happens to the call, and waited for by the process."""

import asyncio
import contextlib
from collections.abc import Coroutine

SETTLE_S = 5.0
"""How long the end of the process waits for what is under way."""
_LOOK_S = 0.01

_under_way: set[Coroutine[None, None, None]] = set()


async def settle(work: Coroutine[None, None, None]) -> None:
    """Do it, in the task of its call: one of its own would cost more than most of what is done. Its errors are its own."""
    _under_way.add(work)
    try:
        await work
    except Exception:  # noqa: BLE001, S110  whoever made it has said what there is to say
        pass
    finally:
        _under_way.discard(work)


async def settled() -> None:
    """Wait for everything that is still under way, `SETTLE_S` at most. For the end of the process."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while _under_way:  # noqa: ASYNC110  once in a process's life
                await asyncio.sleep(_LOOK_S)
