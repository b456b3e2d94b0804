"""What the file store promises beyond the contract: restarts, two processes, sudden death."""

import asyncio
import os
import signal
import sqlite3
import weakref

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError, Unstorable
from proxy.ledger.records import Reply
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores.memory import MIB
from tests.collecting import gone, no_collection
from tests.stores.conftest import a_plan, a_turn, a_usage, an_anchor, key
from tests.stores.files import a_store, finished, rows_in, run_beside, until

pytestmark = pytest.mark.anyio


async def test_everything_survives_a_restart(path, clock):
    plan = a_plan("placeholder " * 1000)
    first = a_store(path, clock)
    await first.decide(an_anchor("a", plan=plan), plan)
    await first.settle(Settlement(an_anchor("b", plan=plan, usage=a_usage()), a_turn()))
    await first.learn("factor", b"1.1")
    await first.close()

    second = a_store(path, clock)
    assert await second.anchors([key("a"), key("b")]) == [
        an_anchor("a", plan=plan),
        an_anchor("b", plan=plan, usage=a_usage()),
    ]
    assert await second.plan(plan.plan_id()) == plan
    assert await second.turns(TurnQuery()) == [a_turn()]
    assert await second.learned("factor") == b"1.1"
    await second.close()


async def test_a_closed_store_takes_no_memory_until_the_next_collection(path, clock):
    store = a_store(path, clock)
    await store.settle(Settlement(an_anchor("a"), a_turn()))
    known = weakref.ref(store)
    with no_collection():
        await store.close()
        del store

        # The thread that closed it lets go of it a moment later.
        await gone(known)


async def test_a_decision_is_in_the_file_when_decide_returns(path, clock):
    store = a_store(path, clock)
    await store.decide(an_anchor("a"), EMPTY_PLAN)

    with sqlite3.connect(path) as reader:
        count = reader.execute("SELECT count(*) FROM anchors").fetchone()[0]
    reader.close()
    await store.close()
    assert count == 1


async def test_a_settled_call_is_in_the_file_soon_and_readable_at_once(path, clock):
    store = a_store(path, clock)
    await store.settle(Settlement(an_anchor("a"), a_turn()))
    assert await store.anchors([key("a")]) == [an_anchor("a")]

    await until(lambda: rows_in(path, "turns") == 1)
    await store.close()


async def test_an_anchor_that_memory_has_no_room_for_is_readable_at_once(path, clock):
    store = a_store(path, clock)
    large = an_anchor("a", replies=(Reply(fingerprint=b"", reasoning="why " * (3 * MIB)),))
    await store.settle(Settlement(large, a_turn()))

    assert await store.anchors([key("a"), key("b")]) == [large, None]
    assert await store.anchors([key("a")]) == [large]

    await until(lambda: rows_in(path, "turns") == 1)
    assert await store.anchors([key("a")]) == [large]
    await store.close()


async def test_two_processes_on_one_file_see_each_others_anchors_at_once(path, clock):
    left, right = a_store(path, clock), a_store(path, clock)
    await left.decide(an_anchor("a", estimated=1), EMPTY_PLAN)
    assert (await right.anchors([key("a")]))[0].estimated == 1

    # Right now holds it in memory; left replaces it: memory must not win.
    await left.decide(an_anchor("a", estimated=2), EMPTY_PLAN)
    assert (await right.anchors([key("a")]))[0].estimated == 2
    await right.decide(an_anchor("a", estimated=3), EMPTY_PLAN)
    assert (await left.anchors([key("a")]))[0].estimated == 3
    await left.close()
    await right.close()


async def test_memory_is_dropped_when_another_process_wrote_very_much(path, clock):
    left, right = a_store(path, clock), a_store(path, clock)
    await right.decide(an_anchor("a", estimated=1), EMPTY_PLAN)
    await left.decide(an_anchor("a", estimated=2), EMPTY_PLAN)
    await asyncio.gather(*(left.decide(an_anchor(f"x{number}"), EMPTY_PLAN) for number in range(600)))

    assert (await right.anchors([key("a")]))[0].estimated == 2
    await left.close()
    await right.close()


async def test_two_real_processes_write_at_the_same_time_and_nothing_is_lost(path):
    code = """
        async def main(path, name):
            store = a_store(Path(path))
            for number in range(150):
                await store.decide(an_anchor(f"{name}{number}"), EMPTY_PLAN)
                await store.settle(Settlement(an_anchor(f"{name}{number}", usage=a_usage()), a_turn(number + 1, session=name)))
            await store.close()
        asyncio.run(main(*sys.argv[1:]))
    """
    for process in [run_beside(code, path, "left"), run_beside(code, path, "right")]:
        finished(process)

    store = a_store(path)
    found = await store.anchors([key(f"{name}{number}") for name in ("left", "right") for number in range(150)])
    assert all(anchor is not None and anchor.usage == a_usage() for anchor in found)
    assert {line.session: line.turns for line in await store.sessions(9)} == {"left": 150, "right": 150}
    await store.close()


async def test_a_process_killed_while_it_writes_leaves_a_whole_file_with_every_decision(path):
    code = """
        async def main(path):
            store = a_store(Path(path))
            for number in range(100_000):
                plan = a_plan(f"plan {number}")
                await store.decide(an_anchor(f"k{number}", plan=plan), plan)
                await store.settle(Settlement(an_anchor(f"k{number}", plan=plan, usage=a_usage()), a_turn(number)))
                print(number, flush=True)
        asyncio.run(main(sys.argv[1]))
    """
    process = run_beside(code, path)
    decided = [int(process.stdout.readline()) for _ in range(300)][-1]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    store = a_store(path)
    assert store.opening.moved_aside is None
    found = await store.anchors([key(f"k{number}") for number in range(decided + 1)])
    assert all(found)
    assert await store.plan(found[-1].plan_id) == a_plan(f"plan {decided}")
    await store.close()
    reader = sqlite3.connect(path)
    assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    reader.close()


async def test_damage_found_while_running_is_an_error_and_opening_anew_starts_fresh(path, clock):
    first = a_store(path, clock)
    for number in range(300):
        await first.settle(Settlement(an_anchor(str(number)), a_turn(number)))
    await first.close()
    store = a_store(path, clock)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))

    with pytest.raises(StoreError, match="malformed"):
        await store.anchors([key("7")])
    with pytest.raises(StoreError):
        await store.decide(an_anchor("a"), EMPTY_PLAN)
    await store.close()

    fresh = a_store(path, clock)
    await fresh.decide(an_anchor("a"), EMPTY_PLAN)
    assert await fresh.anchors([key("a"), key("7")]) == [an_anchor("a"), None]
    await fresh.close()
    assert len(list(path.parent.glob("state.db.damaged-*"))) >= 1


async def test_of_several_failures_the_one_of_the_store_is_told(path):
    store = a_store(path)
    await store.close()
    odd = Settlement(None, a_turn(2, label="\ud800"))
    for calls in ((odd, Settlement(None, a_turn(3))), (Settlement(None, a_turn(3)), odd)):
        with pytest.raises(StoreError, match="closed"):
            await store.settle(*calls)
    with pytest.raises(Unstorable):
        await store.settle(odd)
