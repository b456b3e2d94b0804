import asyncio

import pytest

from proxy.reports.metrics import Metrics
from proxy.server import numbers
from proxy.server.numbers import Numbers
from proxy.server.slots import Slots
from tests.builders import a_turn

pytestmark = pytest.mark.anyio

CALLS = b'pruning_proxy_calls_total{model="m",outcome="ok",purpose="main",upstream="openai"} '


def calls_on(page):
    return sum(float(line[len(CALLS) :]) for line in page.splitlines() if line.startswith(CALLS))


def a_process(calls=0):
    metrics = Metrics(version="9")
    for _ in range(calls):
        metrics.take(a_turn())
    return metrics, Numbers(metrics)


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def a_life(slots, calls, expected):
    """Of worker 0: it counts calls, tells the others, and ends without a word."""
    before = slots.read(0)
    _, one = a_process(calls)
    one.join(slots, 0)
    await until(lambda: slots.read(0) != before)
    assert calls_on(one.page()) == expected
    await one.aclose()


async def test_alone_it_shows_its_own_numbers():
    metrics, alone = a_process(3)

    assert alone.page() == metrics.page()
    assert calls_on(alone.page()) == 3
    await alone.aclose()


async def test_every_worker_tells_the_sum_and_its_own_at_once(monkeypatch):
    monkeypatch.setattr(numbers, "EVERY_S", 0.02)
    slots = Slots(2)
    (metrics, one), (_, two) = a_process(3), a_process(4)
    one.join(slots, 0)
    two.join(slots, 1)
    await until(lambda: calls_on(one.page()) == calls_on(two.page()) == 7)

    metrics.take(a_turn())
    assert calls_on(one.page()) == 8
    await until(lambda: calls_on(two.page()) == 8)
    await one.aclose()
    await two.aclose()


async def test_a_successor_goes_on_from_what_its_predecessor_had_counted(monkeypatch):
    monkeypatch.setattr(numbers, "EVERY_S", 0.02)
    slots = Slots(2)
    for generation in range(1, 4):
        await a_life(slots, 5, 5 * generation)

    _, two = a_process(1)
    two.join(slots, 1)
    assert calls_on(two.page()) == 16
    await two.aclose()


async def test_numbers_too_large_to_share_are_said_once_and_shown_by_their_own_process(monkeypatch, capsys):
    monkeypatch.setattr(numbers, "EVERY_S", 0.005)
    _, one = a_process(3)
    one.join(Slots(1, half_bytes=64), 0)
    await asyncio.sleep(0.05)
    await one.aclose()

    assert calls_on(one.page()) == 3
    assert capsys.readouterr().out.count("metrics_not_shared") == 1
