"""What stands in the file's tables."""

import os
import sqlite3

import pytest

from proxy.ledger.originals import MOST_SESSION_BYTES, an_original
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores.codec import pack
from proxy.stores.sealed import PLAIN, sealing_of
from proxy.stores.sqlite_file import connect, open_file
from proxy.stores.sqlite_rows import Pen, Rows
from tests.stores.conftest import TTL_S, a_plan, a_turn, an_anchor, key
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


@pytest.mark.parametrize("sealing", [PLAIN, sealing_of("a passphrase for tests")], ids=["plain", "sealed"])
async def test_a_plan_never_ends_before_an_anchor_that_was_written_while_the_clock_was_ahead(path, clock, sealing):
    store, plan = a_store(path, clock, sealing=sealing), a_plan("x")
    clock.now += TTL_S / 3
    await store.decide(an_anchor("ahead", plan=plan), plan)
    clock.now -= TTL_S / 3
    await store.decide(an_anchor("now", plan=plan), plan)
    clock.now += 1.2 * TTL_S

    assert await store.anchors([key("ahead"), key("now")]) == [an_anchor("ahead", plan=plan), None]
    assert await store.plan(plan.plan_id()) == plan
    await store.close()


async def test_a_conversations_originals_stay_within_their_bound_and_are_rarely_summed(path, clock):
    """Also where several processes write of it in turn."""
    open_file(path, clock.now)
    connections = [connect(path, 5.0) for _ in range(3)]
    pens = [
        Pen(connection, writer_id=number, ttl_s=TTL_S, sealing=PLAIN) for number, connection in enumerate(connections)
    ]
    statements = []
    for connection in connections:
        connection.set_trace_callback(statements.append)
    held, turn = [], a_turn()
    for number in range(300):
        # Random, so that all of them together are half as much again as there is room for.
        original = an_original(number.to_bytes(16), os.urandom(10_000).hex())
        pens[number % 3].commit([Rows(turn=(turn, pack(turn)), originals=(original,))], clock.now)
        held += connections[0].execute("SELECT total(length(packed)) FROM originals").fetchone()
    newest = connections[0].execute("SELECT id FROM originals ORDER BY seq DESC").fetchall()
    for connection in connections:
        connection.close()

    until_full = next(number for number, total in enumerate(held) if total > MOST_SESSION_BYTES - 300_000)
    assert max(held) <= MOST_SESSION_BYTES
    assert newest == [(number.to_bytes(16),) for number in range(299, 299 - len(newest), -1)]
    assert sum("SELECT sum(length(packed)) FROM" in one for one in statements) < 300 - until_full / 2
