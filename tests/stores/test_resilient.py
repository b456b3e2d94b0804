"""The shelter: whatever happens to the store, no call fails, and the store comes back by itself with what it missed."""

import asyncio
import os
import time

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.originals import an_original
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores import open_resilient, open_store
from proxy.stores.memory import MemoryStore
from proxy.stores.resilient import Resilient
from proxy.stores.sqlite import SqliteStore
from tests.stores.conftest import TTL_S, a_plan, a_turn, a_usage, an_anchor, key
from tests.stores.files import finished, run_beside, until

pytestmark = pytest.mark.anyio


class Said:
    """What the shelter told, one entry per change."""

    def __init__(self):
        self.changes = []

    def __call__(self, healthy, reason):
        self.changes.append((healthy, reason))

    @property
    def states(self):
        return [healthy for healthy, _ in self.changes]


def a_shelter(url, clock, said=None, **changes):
    return Resilient(
        lambda: open_store(url, ttl_s=TTL_S, clock=clock),
        ttl_s=TTL_S,
        clock=clock,
        on_change=said or Said(),
        **{"first_pause_s": 0.05, **changes},
    )


def a_patient_file(path, clock):
    return SqliteStore(path, ttl_s=TTL_S, clock=clock, patience_s=60.0)


@pytest.mark.parametrize("how", ["killed", "frozen", "erroring"])
async def test_a_store_that_goes_and_comes_back_costs_no_call_and_no_row(own_redis, clock, how):
    said, plan, removed = Said(), a_plan("before"), an_original(b"p" * 16, "what an edit took out meanwhile")
    store = a_shelter(own_redis.url, clock, said)
    await store.decide(an_anchor("before", plan=plan), plan)
    await store.settle(Settlement(an_anchor("before", plan=plan, usage=a_usage()), a_turn(1)))
    assert store.healthy

    {
        "killed": own_redis.kill,
        "frozen": own_redis.freeze,
        "erroring": lambda: own_redis.cli("config", "set", "maxmemory", "1"),
    }[how]()
    later = a_plan("before", "meanwhile")
    await store.decide(an_anchor("meanwhile", plan=later, turn=2), later)
    await store.settle(Settlement(an_anchor("meanwhile", plan=later, turn=2, usage=a_usage()), a_turn(2), [removed]))
    await store.learn("factor", b"1.3")
    assert not store.healthy
    assert await store.anchors([key("meanwhile"), key("before")]) == [
        an_anchor("meanwhile", plan=later, turn=2, usage=a_usage()),
        an_anchor("before", plan=plan, usage=a_usage()),
    ]
    assert await store.plan(later.plan_id()) == later
    assert [turn.turn for turn in await store.turns(TurnQuery())] == [2, 1]
    assert (await store.sessions(5))[0].turns == 2
    assert await store.learned("factor") == b"1.3"

    {
        "killed": own_redis.start,
        "frozen": own_redis.thaw,
        "erroring": lambda: own_redis.cli("config", "set", "maxmemory", "0"),
    }[how]()
    await until(lambda: store.healthy)
    assert said.states == [False, True]
    assert store.failures >= 1
    await store.close()

    # Another process, which knows only what the store holds: also what the killed server had lost is there again.
    other = open_store(own_redis.url, ttl_s=TTL_S, clock=clock)
    found = await other.anchors([key("meanwhile"), key("before")])
    assert [anchor.usage for anchor in found] == [a_usage(), a_usage()]
    assert await other.plan(later.plan_id()) == later
    assert await other.plan(plan.plan_id()) == plan
    assert [turn.turn for turn in await other.turns(TurnQuery())] == [2, 1]
    assert await other.originals(a_turn(2).session, [removed.id]) == [removed]
    assert await other.learned("factor") == b"1.3"
    await other.close()


async def test_a_plan_that_another_process_decided_outlives_the_store_where_a_call_has_inherited_it(own_redis, clock):
    """Without it the call's conversation would go out whole, and the provider's cache of what was pruned be lost."""
    plan = a_plan("theirs")
    other, store = open_store(own_redis.url, ttl_s=TTL_S, clock=clock), a_shelter(own_redis.url, clock)
    await other.decide(an_anchor("theirs", plan=plan), plan)
    await other.close()
    assert await store.plan(plan.plan_id()) == plan
    await store.settle(Settlement(an_anchor("ours", plan=plan, turn=2, usage=a_usage()), a_turn(2)))

    own_redis.kill()
    assert await store.anchors([key("ours")]) == [an_anchor("ours", plan=plan, turn=2, usage=a_usage())]
    assert not store.healthy
    assert await store.plan(plan.plan_id()) == plan

    # And a store that comes back empty gets both.
    own_redis.start()
    await until(lambda: store.healthy)
    await store.close()
    other = open_store(own_redis.url, ttl_s=TTL_S, clock=clock)
    assert await other.anchors([key("ours")]) == [an_anchor("ours", plan=plan, turn=2, usage=a_usage())]
    assert await other.plan(plan.plan_id()) == plan
    await other.close()


async def test_a_frozen_store_costs_one_timeout_and_not_one_a_call(own_redis, clock):
    store = a_shelter(own_redis.url, clock, first_pause_s=5.0)
    await store.learn("factor", b"1")
    own_redis.freeze()
    before = time.monotonic()
    for number in range(200):
        await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number)))
        await store.anchors([key(f"k{number}")])

    assert time.monotonic() - before < 20.0
    assert store.failures == 1
    own_redis.thaw()
    await store.close()


async def test_many_calls_that_fail_together_are_one_change(own_redis, clock):
    said = Said()
    store = a_shelter(own_redis.url, clock, said, first_pause_s=5.0)
    await store.learn("factor", b"1")
    own_redis.freeze()
    await asyncio.gather(*(store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number))) for number in range(50)))

    assert said.states == [False]
    assert store.failures > 1
    own_redis.thaw()
    await store.close()


async def test_a_store_that_answers_reads_and_refuses_writes_is_not_taken_back(own_redis, clock):
    said = Said()
    store = a_shelter(own_redis.url, clock, said)
    own_redis.cli("config", "set", "maxmemory", "1")
    await store.settle(Settlement(None, a_turn()))
    await until(lambda: store.failures >= 4)

    assert said.states == [False]
    own_redis.cli("config", "set", "maxmemory", "0")
    await until(lambda: store.healthy)
    await store.close()


async def test_the_pauses_grow_while_the_store_stays_away(own_redis, clock):
    store = a_shelter(own_redis.url, clock, first_pause_s=0.05)
    own_redis.kill()
    await store.settle(Settlement(None, a_turn()))
    await asyncio.sleep(1.5)

    # 0.05, 0.1, 0.2, 0.4, 0.8: five attempts would take 1.55 s; steady ones would be thirty.
    assert 3 <= store.failures <= 6
    await store.close()


async def test_a_store_that_is_down_at_the_start_is_taken_when_it_comes(own_redis, clock):
    said = Said()
    own_redis.kill()
    store = a_shelter(own_redis.url, clock, said)
    await store.decide(an_anchor("a"), EMPTY_PLAN)
    assert await store.anchors([key("a")]) == [an_anchor("a")]

    own_redis.start()
    await until(lambda: store.healthy)
    assert said.states == [False, True]
    await store.close()


async def test_a_later_retry_that_another_replica_served_is_not_overwritten(own_redis, clock):
    mine, theirs = a_shelter(own_redis.url, clock), open_store(own_redis.url, ttl_s=TTL_S, clock=clock)
    own_redis.freeze()
    await mine.settle(Settlement(an_anchor("a", at=10.0, estimated=1), a_turn(1)))
    await mine.settle(Settlement(an_anchor("b", at=30.0, estimated=1), a_turn(2)))
    assert not mine.healthy
    # Before mine is back: its first pause is short, but nothing answers it until now.
    own_redis.thaw()
    for name in "ab":
        await theirs.settle(Settlement(an_anchor(name, at=20.0, estimated=2), a_turn(3)))
    await until(lambda: mine.healthy)
    if await theirs.anchors([key("a")]) == [an_anchor("a", at=10.0, estimated=1)]:
        pytest.skip("this machine was so busy that mine came back before theirs wrote")

    assert [anchor.estimated for anchor in await theirs.anchors([key("a"), key("b")])] == [2, 1]
    assert len(await theirs.turns(TurnQuery())) == 3
    await mine.close()
    await theirs.close()


async def test_what_the_store_has_lost_is_filled_in_from_memory(own_redis, clock):
    plan = a_plan("x")
    store = a_shelter(own_redis.url, clock)
    await store.decide(an_anchor("a", plan=plan), plan)
    own_redis.cli("flushall")

    assert await store.anchors([key("b"), key("a")]) == [None, an_anchor("a", plan=plan)]
    assert await store.plan(plan.plan_id()) == plan
    assert store.healthy
    await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_value_that_cannot_be_kept_does_not_take_the_store_away(kind, path, clock):
    def opened():
        # Patient, since a busy machine needs its time for values of this size.
        return MemoryStore(ttl_s=TTL_S, clock=clock) if kind == "memory" else a_patient_file(path, clock)

    said = Said()
    store = Resilient(opened, ttl_s=TTL_S, clock=clock, on_change=said)
    await store.settle(Settlement(an_anchor("a", session="\ud800"), a_turn(label="\ud800")))
    huge = a_plan("x" * 80_000_000)
    await store.decide(an_anchor("huge", plan=huge), huge)
    await store.settle(Settlement(an_anchor("b"), a_turn(2)))

    assert store.healthy
    assert said.changes == []
    assert await store.anchors([key("b")]) == [an_anchor("b")]
    await store.close()


async def test_a_file_damaged_while_running_is_replaced_and_gets_what_memory_holds(path, clock):
    said, plan = Said(), a_plan("x")
    first = open_store(f"sqlite://{path}?timeout_s=10", ttl_s=TTL_S, clock=clock)
    for number in range(300):
        await first.settle(Settlement(an_anchor(f"old{number}"), a_turn(number, session="old")))
    await first.close()

    store = a_shelter(f"sqlite://{path}?timeout_s=10", clock, said)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    await store.decide(an_anchor("new", plan=plan), plan)
    await store.settle(Settlement(an_anchor("new", plan=plan, usage=a_usage()), a_turn(1)))
    assert (await store.anchors([key("new"), key("old7")]))[0].usage == a_usage()
    await until(lambda: store.healthy)
    await store.close()
    assert said.states == [False, True]

    again = open_store(f"sqlite://{path}?timeout_s=10", ttl_s=TTL_S, clock=clock)
    assert (await again.anchors([key("new")]))[0].usage == a_usage()
    assert await again.plan(plan.plan_id()) == plan
    assert len(await again.turns(TurnQuery(session="s-1"))) == 1
    await again.close()


async def test_a_damaged_file_at_the_start_is_noted(path, clock):
    path.write_bytes(b"no database" * 1000)
    path.chmod(0o600)
    store = open_resilient(f"sqlite://{path}?timeout_s=10", ttl_s=TTL_S, clock=clock)

    assert "damaged" in store.note
    assert store.healthy
    await store.close()


async def test_a_full_disk_loses_no_row_that_this_process_wrote(path):
    code = """
        import resource, signal, time
        from proxy.ledger.store import TurnQuery
        from tests.stores.conftest import Clock
        from tests.stores.files import rows_in, until
        from tests.stores.test_resilient import Said, a_shelter
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        async def main(path):
            said = Said()
            store = a_shelter(f"sqlite://{path}?timeout_s=10", Clock(), said)
            for number in range(20):
                await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number)))
            await until(lambda: rows_in(path, "turns") == 20)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            for number in range(20, 60):
                await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number)))
                await asyncio.sleep(0.01)
            await until(lambda: not store.healthy)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await until(lambda: store.healthy)
            print(len(await store.turns(TurnQuery())), said.states[0], said.states[-1])
            await store.close()
        asyncio.run(main(sys.argv[1]))
    """
    assert finished(run_beside(code, path)) == ["60", "False", "True"]


async def test_closing_does_not_wait_for_a_frozen_store(own_redis, clock):
    store = a_shelter(own_redis.url, clock)
    await store.learn("factor", b"1")
    own_redis.freeze()
    await store.settle(Settlement(None, a_turn()))
    before = time.monotonic()
    await store.close()

    assert time.monotonic() - before < 20.0
    own_redis.thaw()


async def test_an_opener_that_breaks_in_an_unforeseen_way_does_not_end_the_attempts(clock):
    tries = []

    def opener():
        tries.append(1)
        if len(tries) == 1:
            raise StoreError("not yet")
        if len(tries) == 2:
            raise RuntimeError("a defect")
        return open_store("memory://", ttl_s=TTL_S, clock=clock)

    said = Said()
    store = Resilient(opener, ttl_s=TTL_S, clock=clock, on_change=said, first_pause_s=0.02)
    await store.settle(Settlement(None, a_turn()))
    await until(lambda: store.healthy)

    assert said.states == [False, True]
    await store.close()


class Faltering(MemoryStore):
    """Fails at its n-th settled call, once."""

    def __init__(self, clock, fails_at):
        super().__init__(ttl_s=TTL_S, clock=clock)
        self.left = fails_at

    async def settle(self, *calls):
        self.left -= 1
        if self.left == 0:
            raise StoreError("faltering")
        await super().settle(*calls)


async def test_a_store_that_fails_again_while_it_is_given_back_its_writes_loses_none(clock):
    said, faltering = Said(), Faltering(clock, fails_at=1)
    store = Resilient(lambda: faltering, ttl_s=TTL_S, clock=clock, on_change=said, first_pause_s=0.05)
    for number in range(100):
        await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number)))
    faltering.left = 90
    await until(lambda: store.healthy)

    assert said.states == [False, True]
    assert store.failures == 2
    assert [turn.turn for turn in await faltering.turns(TurnQuery())] == list(range(99, -1, -1))
    await store.close()


class Overworked(MemoryStore):
    """Takes so many settled calls each time it is opened, then answers no more."""

    def __init__(self, clock):
        super().__init__(ttl_s=TTL_S, clock=clock)
        self.opened = self.left = 0

    def open(self):
        self.opened += 1
        self.left = 0 if self.opened == 1 else 70
        return self

    async def settle(self, *calls):
        self.left -= 1
        if self.left < 0:
            raise StoreError("no answer in time")
        await super().settle(*calls)


async def test_a_store_that_takes_only_some_writes_at_a_time_is_not_waited_for_ever_longer(clock):
    said, overworked = Said(), Overworked(clock)
    store = Resilient(overworked.open, ttl_s=TTL_S, clock=clock, on_change=said, first_pause_s=0.2)
    for number in range(400):
        await store.settle(Settlement(an_anchor(f"k{number}"), a_turn(number)))
    started = time.monotonic()
    await until(lambda: store.healthy)

    # Seven attempts: with pauses that double all of them would wait for 25 s.
    assert overworked.opened == 8
    assert time.monotonic() - started < 20
    assert len(await overworked.turns(TurnQuery(limit=1000))) == 400
    await store.close()


async def test_of_two_writes_about_one_prefix_the_later_is_what_the_store_gets(own_redis, clock):
    store, plan = a_shelter(own_redis.url, clock), a_plan("sticky")
    own_redis.kill()
    await store.settle(Settlement(an_anchor("same", turn=1), a_turn(1)))
    await store.decide(an_anchor("same", plan=plan, turn=2), plan)
    await store.settle(Settlement(an_anchor("same", plan=plan, turn=2, usage=a_usage()), a_turn(2)))
    own_redis.start()
    await until(lambda: store.healthy)
    await store.close()

    other = open_store(own_redis.url, ttl_s=TTL_S, clock=clock)
    assert await other.anchors([key("same")]) == [an_anchor("same", plan=plan, turn=2, usage=a_usage())]
    assert await other.plan(plan.plan_id()) == plan
    assert [turn.turn for turn in await other.turns(TurnQuery())] == [2, 1]
    await other.close()


async def test_rows_kept_for_a_store_that_goes_end_their_lives_when_they_would_have_there(own_redis, clock):
    store = a_shelter(own_redis.url, clock, first_pause_s=60.0)
    await store.settle(Settlement(an_anchor("a"), a_turn(1)))
    clock.now += TTL_S / 2
    await store.settle(Settlement(an_anchor("b"), a_turn(2)))
    own_redis.kill()

    assert [turn.turn for turn in await store.turns(TurnQuery())] == [2, 1]
    clock.now += TTL_S / 2
    assert [turn.turn for turn in await store.turns(TurnQuery())] == [2]
    await store.settle(Settlement(an_anchor("c"), a_turn(3)))
    assert [turn.turn for turn in await store.turns(TurnQuery())] == [3, 2]
    await store.close()
