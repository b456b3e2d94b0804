"""Whether objects go away by themselves."""

import asyncio
import gc
from contextlib import contextmanager


@contextmanager
def no_collection():
    """While this is open, objects that know each other in a circle stay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def gone(known, patience_s=30.0):
    """Wait until nobody has the object of this weak reference any more; TimeoutError when somebody goes on having it."""
    async with asyncio.timeout(patience_s):
        while known() is not None:
            await asyncio.sleep(0.01)
