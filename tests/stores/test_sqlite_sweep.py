"""What goes from the file by itself."""

import asyncio
import contextlib
import os
import sqlite3

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.ledger.originals import an_original
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores.codec import pack
from proxy.stores.sqlite_file import connect
from proxy.stores.sqlite_rows import Rows
from proxy.stores.sqlite_sweep import remove_some
from tests.stores.conftest import TTL_S, a_plan, a_turn, an_anchor, key
from tests.stores.files import a_store, an_older_file, rows_in, until

pytestmark = pytest.mark.anyio


async def test_the_oldest_rows_go_when_the_file_is_over_its_room(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    store = a_store(path, clock, room_bytes=1_000_000)
    for number in range(3000):
        await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number)))
        if number % 100 == 0:
            plan = a_plan(os.urandom(2000).hex() * 2)
            await store.decide(an_anchor(f"p{number}", plan=plan), plan)
            await asyncio.sleep(0.03)
    await until(lambda: rows_in(path, "turns") < 2500)

    turns = await store.turns(TurnQuery(limit=5000))
    await store.close()
    assert turns[0].turn == 2999
    assert 100 < len(turns) < 2500
    assert path.stat().st_size < 2_000_000
    # Tables reach back as far as each other.
    assert 0.5 < rows_in(path, "turns") / rows_in(path, "anchors") < 2


async def test_the_oldest_calls_are_those_of_an_older_file(path, clock):
    turns = [a_turn(number) for number in range(4000)]
    an_older_file(path, 2, [[Rows(turn=(turn, pack(turn))) for turn in turns[:2000]]], clock.now)
    store = a_store(path, clock)
    await store.settle(*[Settlement(None, turn) for turn in turns[2000:]])
    await store.close()
    with contextlib.closing(connect(path, 5.0)) as connection:
        gone = [remove_some(connection, clock.now, TTL_S, 0) for _ in range(15)]
        # A twentieth of all at once.
        assert gone[0] == 200
        assert sum(gone) > 2000

    store = a_store(path, clock)
    assert await store.turns(TurnQuery(limit=5000)) == turns[: sum(gone) - 1 : -1]
    await store.close()
    assert rows_in(path, "turns_before") == 0


async def test_dead_rows_leave_the_file(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    older = [a_turn(number) for number in range(300)]
    an_older_file(path, 2, [[Rows(turn=(turn, pack(turn))) for turn in older]], clock.now)
    store = a_store(path, clock)
    plan = a_plan("x")
    for number in range(300):
        await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number), [an_original(key(f"o{number}"), "x")]))
    await store.decide(an_anchor("d", plan=plan), plan)
    await store.learn("factor", b"1")
    clock.now += 1.1 * TTL_S
    await store.decide(an_anchor("alive"), EMPTY_PLAN)
    tables = ("anchors", "plans", "turns_before", "turns", "learned", "originals")
    await until(lambda: [rows_in(path, table) for table in tables] == [1, 0, 0, 0, 0, 0])
    await store.close()


async def test_rows_of_a_clock_that_was_far_ahead_do_not_stay_for_that_long(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    clock.now += 1e7
    store = a_store(path, clock)
    await store.decide(an_anchor("future"), EMPTY_PLAN)
    clock.now -= 1e7
    await store.decide(an_anchor("now"), EMPTY_PLAN)
    await until(lambda: rows_in(path, "anchors") == 1)

    assert await store.anchors([key("future"), key("now")]) == [None, an_anchor("now")]
    await store.close()


async def test_a_plan_of_a_clock_that_was_far_ahead_stays_with_the_anchors_that_name_it_now(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    plan = a_plan("x")
    clock.now += 1e7
    store = a_store(path, clock)
    await store.decide(an_anchor("future", plan=plan), plan)
    clock.now -= 1e7
    await store.settle(Settlement(an_anchor("now", plan=plan), a_turn()))
    with contextlib.closing(sqlite3.connect(path)) as reader:
        ends = "SELECT expires - ? FROM plans"
        await until(lambda: reader.execute(ends, (clock.now,)).fetchall() == [(2 * TTL_S,)])

    assert rows_in(path, "anchors") == 1
    assert await store.plan(plan.plan_id()) == plan
    await store.close()
