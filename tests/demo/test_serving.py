"""Servers for tests and for the show."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from proxy.demo.serving import serving

pytestmark = pytest.mark.anyio


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_an_app_is_served_until_the_end_of_the_block():
    async with serving(hello) as base, httpx.AsyncClient() as client:
        assert (await client.get(base)).text == "hello"

    port = urlsplit(base).port
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_an_app_that_does_not_start_says_so():
    async def broken(scope, receive, send):
        assert scope["type"] == "lifespan"
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    with pytest.raises(RuntimeError, match="did not start"):
        async with serving(broken):
            pass
