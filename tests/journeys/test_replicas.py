"""Two replicas behind any load balancer: one conversation may go to either, and parts may die."""

import asyncio
import time

import pytest

from proxy.demo.sessions import shipped
from proxy.ledger.store import TurnQuery
from proxy.stores import open_store
from proxy.wire.body import dumps
from tests.bench.speakers import Chat
from tests.journeys.replicas import Talk, replicas
from tests.stores.servers import BINARY, RedisServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="no redis-server on this machine"),
]

TURNS = 16
FACTS = ("session", "turn", "basis", "estimated", "removed_tokens", "edits", "new_edits", "outcome", "failed_open")


@pytest.fixture
def redis(tmp_path):
    server = RedisServer(tmp_path / "redis").start()
    yield server
    server.kill()


async def rows(store_url):
    ledger = open_store(store_url, ttl_s=3600.0, clock=time.time)
    try:
        found = sorted(await ledger.turns(TurnQuery(limit=1000)), key=lambda turn: turn.at)
    finally:
        await ledger.close()
    return [tuple(getattr(turn, name) for name in FACTS) for turn in found]


async def played(house, session, store):
    """The recorded session, each call to the next replica; gives what the client was told.

    A call is settled after its last byte: one that hops at once to another replica may come before that.
    """
    told = []
    for number, (history, _) in enumerate(list(session.turns())[:TURNS]):
        body = dumps(Chat().body(list(session.tools), list(history)) | {"model": "gpt-4o"})
        url = f"{house.url(number % len(house.processes))}/v1/chat/completions"
        answer = await house.http.post(url, content=body, headers={"authorization": "Bearer one"})
        notes = {name: value for name, value in answer.headers.items() if name.startswith("x-context-")}
        told.append((answer.status_code, answer.content[-14:], notes))
        while len(await rows(store)) <= number:
            await asyncio.sleep(0.02)
    return told


async def test_a_session_that_hops_call_by_call_is_treated_as_by_one_process(redis, tmp_path):
    session, results = shipped(), []
    for number, store in ((1, f"sqlite://{tmp_path}/one.db?timeout_s=10"), (2, redis.url)):
        async with replicas(number, store, tmp_path / str(number)) as house:
            told = await played(house, session, store)
            known = await rows(store)
        results.append((told, [record.body for record in house.provider.received], known))
    (told_one, sent_one, rows_one), (told_two, sent_two, rows_two) = results

    assert told_two == told_one
    assert sent_two == sent_one
    assert rows_two == rows_one
    assert [notes["x-context-basis"] for _, _, notes in told_two] == ["estimated"] + ["anchored"] * (TURNS - 1)
    assert sum(int(notes["x-context-removed-tokens"]) > 0 for _, _, notes in told_two) > TURNS // 2


async def test_redis_may_die_and_come_back_empty(redis, tmp_path):
    async with replicas(2, redis.url, tmp_path) as house:
        talks = [Talk() for _ in range(10)]

        async def on(rounds):
            for number in range(rounds):
                await asyncio.gather(*(talk.say(house, (number + at) % 2) for at, talk in enumerate(talks)))

        await on(1)
        # The first call names the conversation; the other replica may be asked before it is settled.
        while len(await rows(redis.url)) < len(talks):
            await asyncio.sleep(0.02)
        await on(5)
        redis.kill()
        await on(6)
        degraded = [await house.store_is_healthy(number) for number in range(2)]
        redis.start()
        await on(2)
        await house.until_healthy()
        before = len(talks[0].heard)
        await on(12)
        logs = house.logs()
    heard = [one for talk in talks for one in talk.heard]
    recovered = [one for talk in talks for one in talk.heard[before:]]

    assert degraded == [False, False]
    assert [one.failure for one in heard if one.failure] == []
    assert len(recovered) == 120
    assert sum(one.basis == "anchored" for one in recovered) >= 0.99 * len(recovered)
    assert all(len({one.session for one in talk.heard}) == 1 for talk in talks)
    assert "call_failed" not in logs


async def test_a_replica_that_is_killed_under_load_takes_only_its_own_calls_with_it(redis, tmp_path):
    """Redis dies and comes back at the same time; clients go on with the replica that is left."""
    async with replicas(2, redis.url, tmp_path) as house:
        house.provider.pause_s = 0.01
        talks = [Talk() for _ in range(24)]
        stop = asyncio.Event()

        async def on(talk, number):
            while not stop.is_set():
                number += 1
                await talk.say(house, 1 if house.killed else number % 2)

        running = [asyncio.ensure_future(on(talk, number)) for number, talk in enumerate(talks)]
        # Counted in calls, not in seconds: a busy machine needs longer for as much.
        await house.until(lambda: sum(len(talk.heard) for talk in talks) > 100)
        redis.kill()
        await house.until(lambda: sum(len(talk.heard) for talk in talks) > 200)
        house.kill(0)
        await asyncio.sleep(0.5)
        redis.start()
        await house.until_healthy()
        before = [len(talk.heard) for talk in talks]
        await house.until(lambda: sum(len(talk.heard) for talk in talks) > sum(before) + 200)
        stop.set()
        await asyncio.gather(*running)
    heard = [one for talk in talks for one in talk.heard]
    failed = [one for one in heard if one.failure]
    recovered = [one for talk, start in zip(talks, before, strict=True) for one in talk.heard[start:]]

    assert len(heard) > 200
    assert failed
    assert {one.replica for one in failed} == {0}
    assert len(failed) <= len(talks)
    assert len(recovered) > 100
    assert sum(one.basis == "anchored" for one in recovered) >= 0.99 * len(recovered)
