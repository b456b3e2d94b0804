"""The same session straight to a provider and through the proxy."""

import pytest

from proxy.demo.race import MODEL, price, race
from proxy.demo.sessions import Session

pytestmark = pytest.mark.anyio

SESSION = Session(
    name="s",
    agent="a",
    source="",
    licence="MIT",
    tools=(),
    messages=(
        {"role": "user", "content": "word " * 3000},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "second"},
    ),
)


async def test_both_ways_give_the_recorded_answers():
    async with race(SESSION, "gentle") as both:
        steps = [step async for step in both.steps(None)]
        direct, pruned = both.bills()

    assert [step.pruned.said["content"] for step in steps] == ["first", "second"]
    assert all(step.agree for step in steps)
    assert steps[1].pruned.anchored
    assert direct == pruned
    assert direct.cached_tokens > 2900
    assert [(row.turn, row.model) for row in both.rows] == [(1, MODEL), (2, MODEL)]


async def test_a_race_may_be_cut_short():
    async with race(SESSION, "bold") as both:
        steps = [step async for step in both.steps(1)]

    assert [(step.number, step.of) for step in steps] == [(1, 1)]


def test_the_model_of_the_show_has_a_price():
    rates = price().rates

    assert 0 < rates.cache_read < rates.input < rates.output
