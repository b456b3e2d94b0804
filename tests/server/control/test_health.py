from dataclasses import replace

import pytest

from proxy.settings.values import Settings, Upstream
from tests.server.control.lodge import a_desk, asking

pytestmark = pytest.mark.anyio


async def ready(desk):
    async with asking(desk) as http:
        answer = await http.get("/readyz")
    return answer.status_code, answer.json()


async def test_the_process_lives():
    async with asking(a_desk()) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}


async def test_readiness_tells_store_and_upstreams():
    status, told = await ready(a_desk())

    assert (status, told["status"], told["store"]) == (200, "ready", True)
    assert told["upstreams"] == sum(bool(upstream.base_url) for upstream in Settings().upstreams.values())


async def test_a_lost_store_is_no_reason_to_send_calls_elsewhere():
    desk = a_desk()
    desk.watch.looks_at_store(lambda: False, lambda: 3)

    status, told = await ready(desk)
    assert (status, told["status"], told["store"]) == (200, "degraded", False)


async def test_a_leaving_process_wants_no_more_calls():
    desk = a_desk()
    desk.watch.feed.end()

    status, told = await ready(desk)
    assert (status, told["status"]) == (503, "leaving")


async def test_without_an_upstream_there_is_nothing_to_be_ready_for():
    desk = replace(a_desk(), settings=Settings(upstreams={"openai": Upstream()}))

    status, told = await ready(desk)
    assert (status, told["upstreams"]) == (503, 0)
