import asyncio
import ctypes
import platform

import pytest

from proxy.server.memory import given_back, trimmer

pytestmark = pytest.mark.anyio


async def test_memory_is_given_back_while_the_process_serves_and_no_longer():
    given = []
    async with asyncio.timeout(60):
        async with given_back(0.01, lambda: given.append(1)):
            while len(given) < 2:
                await asyncio.sleep(0.01)
    count = len(given)
    await asyncio.sleep(0.1)

    assert len(given) == count


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_glibc_is_asked():
    assert trimmer()() in (0, 1)


async def test_another_c_library_is_left_alone(monkeypatch):
    class Other:
        def __init__(self, _name):
            pass

    monkeypatch.setattr(ctypes, "CDLL", Other)

    assert trimmer() is None
    async with given_back(0.0):
        await asyncio.sleep(0.01)
