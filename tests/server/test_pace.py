import asyncio

import pytest

from proxy.server.pace import Pace

pytestmark = pytest.mark.anyio


class Loop:
    """Counts the turns of the loop."""

    def __init__(self):
        self.turns = 0
        self._task = asyncio.create_task(self._count())

    async def _count(self):
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def stop(self):
        self._task.cancel()


@pytest.fixture
async def loop():
    counting = Loop()
    yield counting
    counting.stop()


async def steps(pace, loop, name, seen):
    await pace.turn()
    seen.append((name, loop.turns))


async def test_who_is_alone_does_not_wait(loop):
    pace, seen = Pace(), []
    await asyncio.sleep(0)
    for name in "ab":
        before = loop.turns
        await steps(pace, loop, name, seen)
        assert loop.turns == before
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert [name for name, _ in seen] == ["a", "b"]


async def test_of_many_each_has_a_turn_of_his_own_in_the_order_of_asking(loop):
    pace, seen = Pace(), []
    await asyncio.gather(*(steps(pace, loop, name, seen) for name in range(20)))

    assert [name for name, _ in seen] == list(range(20))
    assert len({turn for _, turn in seen}) == 20
    # And soon: nobody waits for more than those before him.
    assert seen[-1][1] - seen[0][1] <= 2 * 20


async def test_who_comes_meanwhile_stands_behind_those_who_wait(loop):
    pace, seen = Pace(), []
    first = [asyncio.create_task(steps(pace, loop, name, seen)) for name in range(5)]
    while len(seen) < 2:
        await asyncio.sleep(0)
    await steps(pace, loop, "late", seen)
    await asyncio.gather(*first)

    assert [name for name, _ in seen] == [0, 1, 2, 3, 4, "late"]


async def test_who_leaves_holds_up_nobody(loop):
    pace, seen = Pace(), []
    tasks = [asyncio.create_task(steps(pace, loop, name, seen)) for name in range(6)]
    await asyncio.sleep(0)
    for task in tasks[1:4]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await steps(pace, loop, "after", seen)

    assert [name for name, _ in seen] == [0, 4, 5, "after"]


async def test_each_step_of_a_long_computation_has_a_turn_of_its_own(loop):
    pace, seen = Pace(), []

    def long(name):
        for _ in range(4):
            seen.append((name, loop.turns))
            yield
        return name

    assert await asyncio.gather(pace.through(long("a")), pace.through(long("b"))) == ["a", "b"]
    assert len(seen) == 8
    # The first ones begin as their tasks do.
    assert len({turn for _, turn in seen}) >= 7


async def test_a_short_computation_waits_for_nothing(loop):
    def short():
        return "found"
        yield

    before = loop.turns
    assert await Pace().through(short()) == "found"
    assert loop.turns == before


async def test_a_computation_that_trips_or_is_left_takes_nobody_s_turn(loop):
    pace = Pace()

    def broken():
        yield
        raise KeyError("ours")

    with pytest.raises(KeyError):
        await pace.through(broken())
    leaving = asyncio.create_task(pace.through(iter([None] * 50)))
    await asyncio.sleep(0)
    leaving.cancel()
    seen = []
    await asyncio.gather(steps(pace, loop, "next", seen), leaving, return_exceptions=True)

    assert [name for name, _ in seen] == ["next"]
