import asyncio

import pytest

from proxy.server import settling
from proxy.server.settling import settle, settled

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(settling, "SETTLE_S", 0.05)


async def test_quick_work_is_done_when_the_call_goes_on():
    done = []

    async def work():
        await asyncio.sleep(0.01)
        done.append(1)

    await settle(work())

    assert done == [1]


async def test_slow_work_goes_on_by_itself():
    gate, done = asyncio.Event(), asyncio.Event()

    async def work():
        await gate.wait()
        done.set()

    await settle(work())
    await settled()
    assert not done.is_set()
    gate.set()
    await asyncio.wait_for(done.wait(), 30)


async def test_work_survives_the_cancelling_of_its_call():
    done = asyncio.Event()

    async def work():
        await asyncio.sleep(0.02)
        done.set()

    call = asyncio.ensure_future(settle(work()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settled()

    assert done.is_set()


async def test_work_that_fails_harms_nobody():
    async def work():
        raise RuntimeError

    assert await settle(work()) is None
    assert await settled() is None
