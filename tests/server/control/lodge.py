"""A whole proxy with its own pages, in front of the loopback provider."""

import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from proxy.server.assembly import assembled
from proxy.server.board import Board
from proxy.server.control import control_plane
from proxy.server.control.desk import Desk
from proxy.server.watch import Watch
from proxy.settings.values import Compact, Prune, Server, Settings, Store, Upstream
from proxy.stores.memory import MemoryStore
from tests.server.house import MODEL, a_provider
from tests.serving import serving

QUIET = {"prune": Prune(policy="pressure"), "compact": Compact(trigger="off")}


@dataclass
class Lodge:
    base: str
    http: httpx.AsyncClient
    provider: Any

    async def chat(self, history, **more):
        body = {"model": MODEL, "messages": history, **more.pop("fields", {})}
        return await self.http.post("/v1/chat/completions", json=body, **more)

    async def messages(self, history, **fields):
        body = {"model": MODEL, "max_tokens": 500, "messages": history, **fields}
        return await self.http.post("/v1/messages", json=body, headers={"anthropic-version": "2023-06-01"})

    async def get(self, path):
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def queue(self, session, text):
        return await self.http.post(f"/_proxy/api/sessions/{session}/queue", json={"text": text})

    def sent(self, number=-1):
        """A body that reached the provider."""
        return json.loads(self.provider.received[number].body)


@asynccontextmanager
async def a_lodge(provider=None, **sections):
    """Gives a Lodge; `sections` are those of the settings."""
    provider = provider or a_provider()
    async with AsyncExitStack() as stack:
        there = Upstream(base_url=await stack.enter_async_context(serving(provider)), timeout_s=5.0)
        upstreams = dict.fromkeys(("openai", "anthropic", "gemini"), there)
        settings = Settings(**{"store": Store(url="memory://"), "upstreams": upstreams, **QUIET, **sections})
        app = await stack.enter_async_context(assembled(settings))
        base = await stack.enter_async_context(serving(app))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=10.0))
        yield Lodge(base=base, http=http, provider=provider)


def a_desk(*, ledger=None, clock=time.time, **server):
    settings = Settings(server=Server(**server))
    ledger = ledger or MemoryStore(ttl_s=3600.0, clock=clock)
    watch = Watch()
    return Desk(settings=settings, ledger=ledger, board=Board(ledger, settings.mode), watch=watch, clock=clock)


@asynccontextmanager
async def asking(desk, *, client=("127.0.0.1", 5000), host="127.0.0.1", pages=()):
    """A client of the control plane alone, as if it were connected from `client`."""
    transport = httpx.ASGITransport(control_plane(desk, pages), client=client, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}:8787") as http:
        yield http
