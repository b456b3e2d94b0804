"""Calls that ask at the same time go out together, and each gets its own answer or its own error."""

import asyncio
import contextlib

import pytest
from redis.asyncio import Redis

from proxy.errors import StoreError
from proxy.stores.redis_asking import Asking

pytestmark = pytest.mark.anyio


class Counting(Redis):
    """Counts round trips."""

    trips = 0

    def pipeline(self, *args, **kwargs):
        self.trips += 1
        return super().pipeline(*args, **kwargs)

    async def execute_command(self, *args, **kwargs):
        self.trips += 1
        return await super().execute_command(*args, **kwargs)


@contextlib.asynccontextmanager
async def asking(server, *, together=True, patience_s=10.0):
    client = Counting.from_url(server.url, single_connection_client=False)
    yield Asking(client, patience_s, together=together), client
    await client.aclose()


async def test_what_is_asked_in_one_turn_of_the_loop_is_one_round_trip(own_redis):
    async with asking(own_redis) as (redis, client):
        stored = await asyncio.gather(*(redis.run("set", [("SET", f"k{n}", n), ("GET", f"k{n}")]) for n in range(50)))
        assert client.trips == 1
        assert stored == [[True, b"%d" % n] for n in range(50)]

        found = await asyncio.gather(*(redis.run("get", [("MGET", f"k{n}", "none")]) for n in range(50)))
        assert client.trips == 2
        assert found == [[[b"%d" % n, None]] for n in range(50)]


async def test_apart_each_asks_for_itself(own_redis):
    async with asking(own_redis, together=False) as (redis, client):
        found = await asyncio.gather(*(redis.run("set", [("SET", n, n), ("GET", n)]) for n in range(5)))
        assert found == [[True, b"%d" % n] for n in range(5)]
        assert client.trips == 5


async def test_a_refused_command_is_the_error_of_its_own_call_alone(own_redis):
    own_redis.cli("set", "text", "secret")
    async with asking(own_redis) as (redis, _):
        before, refused, after = await asyncio.gather(
            redis.run("before", [("SET", "a", 1)]),
            redis.run("refused", [("SET", "b", 2), ("HGET", "text", "field"), ("SET", "c", 3)]),
            redis.run("after", [("MGET", "a", "b", "c")]),
            return_exceptions=True,
        )
        assert before == [True]
        assert isinstance(refused, StoreError)
        assert str(refused) == "redis store: refused failed: ResponseError WRONGTYPE"
        assert after == [[b"1", b"2", b"3"]]
        with pytest.raises(StoreError, match="alone failed: ResponseError WRONGTYPE"):
            await redis.run("alone", [("HGET", "text", "field")])


async def test_who_gives_up_takes_nothing_from_the_others(own_redis):
    async with asking(own_redis) as (redis, client):
        leaving = asyncio.ensure_future(redis.run("one", [("SET", "a", 1)]))
        staying = asyncio.ensure_future(redis.run("two", [("SET", "b", 2)]))
        await asyncio.sleep(0)
        leaving.cancel()

        assert await staying == [True]
        assert client.trips == 1
        assert own_redis.cli("mget", "a", "b").split() == ["1", "2"]


async def test_a_silent_server_is_an_error_for_each(own_redis):
    async with asking(own_redis, patience_s=0.05) as (redis, _):
        await redis.run("first", [("PING",)])
        own_redis.freeze()
        errors = await asyncio.gather(
            *(redis.run(name, [("GET", "a")]) for name in ("left", "right")), return_exceptions=True
        )
        own_redis.thaw()

        assert [str(error) for error in errors] == ["redis store: no answer to left, right within 0.05 s"] * 2
        assert errors[0] is not errors[1]


async def test_a_client_that_trips_leaves_nobody_waiting(own_redis, monkeypatch):
    async with asking(own_redis) as (redis, client):

        def trip(*_args, **_kwargs):
            raise IndexError("a private text")

        with monkeypatch.context() as patched:
            patched.setattr(client, "pipeline", trip)
            errors = await asyncio.gather(*(redis.run("get", [("GET", "a")]) for _ in range(2)), return_exceptions=True)
        assert [str(error) for error in errors] == ["redis store: get failed: IndexError"] * 2
        assert await redis.run("get", [("GET", "a")]) == [None]


def cancel_sending():
    [sending] = [task for task in asyncio.all_tasks() if task.get_coro().__name__ == "_send"]
    sending.cancel()


async def test_the_end_of_the_process_leaves_nobody_waiting(own_redis):
    async with asking(own_redis) as (redis, _):
        own_redis.freeze()
        waiting = asyncio.ensure_future(redis.run("get", [("GET", "a")]))
        await asyncio.sleep(0.05)
        cancel_sending()
        with pytest.raises(StoreError, match="closed"):
            await waiting
        own_redis.thaw()


async def test_what_is_cancelled_before_it_began_leaves_nobody_waiting(own_redis):
    async with asking(own_redis) as (redis, _):
        waiting = asyncio.ensure_future(redis.run("get", [("GET", "a")]))
        await asyncio.sleep(0)
        cancel_sending()
        joining = asyncio.ensure_future(redis.run("get", [("GET", "a")]))
        done, _ = await asyncio.wait([waiting, joining], timeout=10)
        assert [str(one.exception()) for one in (waiting, joining) if one in done] == ["redis store: closed"] * 2
        assert await redis.run("get", [("GET", "a")]) == [None]


async def test_a_crowd_is_divided(own_redis):
    async with asking(own_redis) as (redis, client):
        many = [("PING",)] * 100
        answers = await asyncio.gather(*(redis.run("ping", many) for _ in range(4)))
        assert [len(own) for own in answers] == [100] * 4
        assert client.trips == 2


async def test_what_is_large_goes_apart_from_what_is_small(own_redis):
    large = b"x" * 300_000
    async with asking(own_redis) as (redis, client):
        stored = await asyncio.gather(
            redis.run("small", [("SET", "a", 1)]),
            redis.run("large", [("SET", "b", large)]),
            redis.run("large", [("SET", "c", large)]),
            redis.run("small", [("SET", "d", 1)]),
            redis.run("small", [("SET", "e", 1)]),
        )
        assert stored == [[True]] * 5
        assert client.trips == 4
