import asyncio
import ctypes
import platform
import subprocess
import sys

import pytest

from proxy.server.heap import given_back, map_large_blocks, trimmer

pytestmark = pytest.mark.anyio

BODIES = """
import sys
from pathlib import Path
from proxy.server.heap import map_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

assert map_large_blocks()
del [bytearray(8_000_000)][:]
kept, bodies = [], []
for _ in range(40):
    bodies.append(bytearray(b"x") * 2_000_000)
    kept.append([object() for _ in range(1000)])
full = resident()
bodies.clear()
print(full - resident())
"""


async def test_memory_is_given_back_while_the_process_serves_and_no_longer():
    given = []
    async with asyncio.timeout(60):
        async with given_back(0.01, lambda: given.append(1)):
            while len(given) < 2:
                await asyncio.sleep(0.01)
    count = len(given)
    await asyncio.sleep(0.1)

    assert len(given) == count


async def test_what_the_start_has_left_is_given_back_at_once():
    given = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60), given_back(3600.0, lambda: loop.call_soon_threadsafe(given.set)):
        await given.wait()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_glibc_is_asked():
    assert trimmer()() in (0, 1)


async def test_another_c_library_is_left_alone(monkeypatch):
    class Other:
        def __init__(self, _name):
            pass

    monkeypatch.setattr(ctypes, "CDLL", Other)

    assert trimmer() is None
    assert not map_large_blocks()
    async with given_back(0.0):
        await asyncio.sleep(0.01)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such thresholds")
def test_the_memory_of_large_bodies_goes_back_when_they_go():
    told = subprocess.run([sys.executable, "-c", BODIES], capture_output=True, text=True, check=True)

    assert int(told.stdout) > 70_000_000
