import asyncio
import weakref

import pytest

from proxy.server import settling
from proxy.server.settling import Settling, settled

pytestmark = pytest.mark.anyio


async def test_what_ends_in_one_turn_of_the_loop_is_settled_together_in_the_next():
    seen = []

    async def work(ended):
        seen.append(ended)

    some = Settling(work)
    for one in "abc":
        some.add(one)
    assert seen == []
    await asyncio.sleep(0)
    some.add("d")
    await settled()

    assert seen == [["a", "b", "c"], ["d"]]


async def test_what_ends_later_is_settled_by_the_same_task():
    seen = []

    async def work(ended):
        seen.append((ended, asyncio.current_task()))

    some = Settling(work)
    for one in "ab":
        some.add(one)
        await settled()
    for one in range(12):
        some.add(one)
    await settled()

    assert [ended for ended, _ in seen] == [["a"], ["b"], [*range(8)], [8, 9, 10, 11]]
    assert seen[0][1] is seen[1][1] is not seen[3][1]


async def test_calls_that_are_settled_are_let_go_of():
    class Call:
        pass

    async def work(ended):
        pass

    call, some = Call(), Settling(work)
    some.add(call)
    known = weakref.ref(call)
    del call
    await settled()

    assert known() is None


async def test_where_the_waiting_task_was_cancelled_another_one_settles():
    seen = []

    async def work(ended):
        seen.append(asyncio.current_task())

    some = Settling(work)
    some.add("a")
    await settled()
    seen[0].cancel()
    await asyncio.wait(seen)
    some.add("b")
    await settled()

    assert len(set(seen)) == 2


async def test_what_ends_while_others_are_settled_does_not_wait_for_them():
    gate, seen = asyncio.Event(), []

    async def work(ended):
        seen.extend(ended)
        await gate.wait()

    some = Settling(work)
    for one in "ab":
        some.add(one)
        await asyncio.sleep(0)

    assert seen == ["a", "b"]
    gate.set()
    await settled()


async def test_a_crowd_is_settled_in_groups_all_in_the_next_turn_so_that_nothing_piles_up():
    sizes = []

    async def work(ended):
        sizes.append(len(ended))

    some = Settling(work)
    for turn in range(3):
        for one in range(20):
            some.add(one)
        await asyncio.sleep(0)

        assert sizes == [8, 8, 4] * (turn + 1)


async def test_of_a_crowd_nobody_waits_for_what_others_wait_for():
    gate, seen = asyncio.Event(), []

    async def work(ended):
        seen.extend(ended)
        await gate.wait()

    some = Settling(work)
    for one in range(12):
        some.add(one)
    await asyncio.sleep(0)
    some.add(12)
    await asyncio.sleep(0)

    assert seen == list(range(13))
    gate.set()
    await settled()


async def test_end_of_the_process_waits_for_what_is_under_way_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(settling, "SETTLE_S", 0.05)
    gate, done = asyncio.Event(), []

    async def work(ended):
        await gate.wait()
        done.extend(ended)

    Settling(work).add("a")
    await settled()
    assert not done
    monkeypatch.setattr(settling, "SETTLE_S", 60.0)
    gate.set()
    await asyncio.wait_for(settled(), 30)

    assert done == ["a"]


async def test_end_of_the_process_waits_for_what_has_only_just_ended():
    done = []

    async def work(ended):
        await asyncio.sleep(0.01)
        done.extend(ended)

    Settling(work).add("a")
    await settled()

    assert done == ["a"]


async def test_work_that_fails_harms_nothing_behind_it():
    seen = []

    async def work(ended):
        seen.append(len(ended))
        raise RuntimeError

    some = Settling(work)
    for one in range(9):
        some.add(one)
    await settled()

    assert seen == [8, 1]
