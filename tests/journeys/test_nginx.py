"""The topology of config/docker-compose.yml: two proxies and a Redis behind nginx, all with that folder's configuration."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import pytest

from proxy.ledger.store import TurnQuery
from proxy.stores import open_store
from tests.journeys.nginx import NGINX, nginx_before, redis_options
from tests.journeys.replicas import Replicas, Talk, replicas
from tests.server.house import MODEL
from tests.stores.servers import BINARY, RedisServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="no redis-server on this machine"),
    pytest.mark.skipif(NGINX is None, reason="no nginx on this machine"),
]
CALL = "/v1/chat/completions"


class Behind(Replicas):
    """Replicas whose clients know the address of nginx only."""

    front = ""
    store_url = ""

    def url(self, number):
        return self.front

    async def until_settled(self, calls, patience_s=60.0):
        """Wait until all replicas know so many calls: one is settled after its last byte, and the next may hop before that."""
        ledger = open_store(self.store_url, ttl_s=3600.0, clock=time.time)
        try:
            async with asyncio.timeout(patience_s):
                while len(await ledger.turns(TurnQuery(limit=1000))) < calls:
                    await asyncio.sleep(0.02)
        finally:
            await ledger.close()

    def is_gone(self, number):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.processes[number].port)) != 0

    def calls_of(self, number):
        return self.processes[number].log().count('"context_estimate"')


class Gated:
    """A provider that waits for leave after each piece of an answer, where there is a `gate`."""

    gate = None

    def __init__(self, provider):
        self.provider = provider

    async def __call__(self, scope, receive, send):
        async def held(message):
            await send(message)
            if self.gate is not None and message.get("body"):
                await self.gate.acquire()

        await self.provider(scope, receive, held)


@asynccontextmanager
async def composed(directory):
    """The whole of it, and its provider."""
    gated = []

    def around(provider):
        gated.append(Gated(provider))
        return gated[0]

    redis = RedisServer(directory / "redis", *redis_options()).start()
    try:
        async with replicas(2, redis.url, directory, around=around) as house:
            ports = [process.port for process in house.processes]
            async with nginx_before(ports, directory) as front:
                behind = Behind(house.provider, house.processes, house.http)
                behind.front, behind.store_url = front, redis.url
                yield behind, gated[0]
    finally:
        redis.kill()


async def test_each_event_passes_before_the_next_is_sent(tmp_path):
    body = {
        "model": MODEL,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "user", "content": "Say a few words, one after the other, until there is no more to say."}
        ],
    }
    received = []
    async with composed(tmp_path) as (house, provider):
        provider.gate = asyncio.Semaphore(0)
        async with house.http.stream("POST", house.front + CALL, json=body) as answer:
            async for piece in answer.aiter_raw():
                received.append(piece)
                provider.gate.release()

    assert len(received) > 3
    assert received[0].startswith(b"data: ")
    assert received[-1].endswith(b"data: [DONE]\n\n")


async def test_a_large_body_passes_whole(tmp_path):
    text = "All work and no play makes a long body. " * (8 * 2**20 // 40)
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
    async with composed(tmp_path) as (house, _):
        answer = await house.http.post(house.front + CALL, json=body)
        (received,) = house.provider.received

    assert answer.headers["server"] == "nginx"
    assert received.body == answer.request.content
    assert answer.headers["x-context-basis"] == "estimated"


async def test_a_conversation_hops_and_goes_on_when_a_replica_dies(tmp_path):
    async with composed(tmp_path) as (house, _):
        talks = [Talk() for _ in range(4)]

        async def on(rounds):
            for _ in range(rounds):
                await asyncio.gather(*(talk.say(house, 0) for talk in talks))
                await house.until_settled(sum(len(talk.heard) for talk in talks))

        await on(6)
        calls = [house.calls_of(number) for number in range(2)]
        house.kill(0)
        await house.until(lambda: house.is_gone(0))
        await on(6)
        heard = [one for talk in talks for one in talk.heard]

    assert all(calls)
    assert [one.failure for one in heard if one.failure] == []
    assert [one.basis for talk in talks for one in talk.heard] == (["estimated"] + ["anchored"] * 11) * len(talks)
    assert all(len({one.session for one in talk.heard}) == 1 for talk in talks)


async def test_the_control_plane_takes_nobody_behind_it_for_a_local_user(tmp_path):
    async with composed(tmp_path) as (house, _):
        pages = ("/healthz", "/readyz", "/metrics", "/_proxy/api/sessions")
        found = {page: (await house.http.get(house.front + page)).status_code for page in pages}

    assert found == {"/healthz": 200, "/readyz": 200, "/metrics": 401, "/_proxy/api/sessions": 401}
