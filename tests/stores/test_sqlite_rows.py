"""What stands in the file's tables."""

import sqlite3

import pytest

from proxy.ledger.store import Settlement, TurnQuery
from tests.stores.conftest import TTL_S, a_plan, a_turn, an_anchor
from tests.stores.files import a_store

pytestmark = pytest.mark.anyio


async def test_equal_plans_are_stored_once_and_long_ones_small(path, clock):
    store = a_store(path, clock)
    plan = a_plan("the same line again\n" * 2000)
    for number in range(50):
        await store.decide(an_anchor(str(number), plan=plan), plan)
    await store.close()

    reader = sqlite3.connect(path)
    assert reader.execute("SELECT count(*), sum(length(packed)) < 6000 FROM plans").fetchone() == (1, 1)
    reader.close()


async def test_a_plan_in_use_is_renewed_once_a_minute_and_never_ends_before_its_anchors(path, clock):
    store, plan = a_store(path, clock), a_plan("x")
    reader = sqlite3.connect(path)
    ends = []
    await store.decide(an_anchor("a", plan=plan), plan)
    for seconds in (0, 50, 20, 50, 20):
        clock.now += seconds
        await store.settle(Settlement(an_anchor("a", plan=plan), a_turn()))
        await store.turns(TurnQuery())
        ends += reader.execute(
            "SELECT plans.expires - ?, plans.expires >= anchors.expires FROM plans, anchors", (clock.now,)
        )
    await store.close()
    reader.close()

    assert ends == [(TTL_S + spare, 1) for spare in (60, 10, 60, 10, 60)]
