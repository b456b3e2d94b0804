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


async def test_end_of_the_process_waits_for_what_is_under_way_but_not_for_ever():
    gate, done = asyncio.Event(), []

    async def work():
        await gate.wait()
        done.append(1)

    call = asyncio.ensure_future(settle(work()))
    await asyncio.sleep(0)
    await settled()
    assert not done
    gate.set()
    await call
    assert done
    await settled()


async def test_end_of_the_process_waits_no_longer_than_the_work_takes(monkeypatch):
    monkeypatch.setattr(settling, "SETTLE_S", 60.0)
    call = asyncio.ensure_future(settle(asyncio.sleep(0.05)))
    await asyncio.sleep(0)
    await asyncio.wait_for(settled(), 30)

    assert call.done()


async def test_work_that_fails_harms_nobody():
    async def work():
        raise RuntimeError

    assert await settle(work()) is None
    assert await settled() is None
