"""The whole proxy with a recorded session played through it: what the dashboard is there to show."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx

from proxy.demo.play import ask, body_of
from proxy.demo.provider import Provider, Recording
from proxy.demo.race import MODEL
from proxy.demo.serving import serving
from proxy.demo.sessions import Session, shipped
from proxy.server.assembly import assembled
from proxy.server.tokenizers import counter
from proxy.settings.load import load
from proxy.wire.body import dumps

WINDOW = 60_000
"""Small, so that thirty turns see pruning and a compaction."""


@dataclass
class House:
    """A running proxy in front of a loopback provider."""

    base: str
    session: Session
    client: httpx.AsyncClient

    async def play(self, turns, model=MODEL):
        """Send the session's turns numbered in `turns` (from 0)."""
        histories = [history for history, _ in self.session.turns()]
        for number in turns:
            heard = await ask(self.client, body_of(self.session, histories[number], model), number)
            assert heard.status == 200, heard.error

    async def greet(self, text, label=""):
        """A conversation of one turn that begins with this text."""
        body = dumps({"model": MODEL, "messages": [{"role": "user", "content": text}]})
        headers = {
            "content-type": "application/json",
            "authorization": "Bearer demo",
            "x-context-session": label.encode(),
        }
        answer = await self.client.post("/v1/chat/completions", content=body, headers=headers)
        assert answer.status_code == 200, answer.text

    async def get(self, path):
        return (await self.client.get(path)).json()


@asynccontextmanager
async def house(folder, **flags):
    """Everything up and listening; `flags` are settings by dotted name with double underscores."""
    session = shipped()
    async with AsyncExitStack() as stack:
        provider = Provider(
            counter("cl100k_base"),
            hidden_tokens=350,
            window=WINDOW,
            answers=Recording(session.messages),
            models=(MODEL,),
        )
        upstream = await stack.enter_async_context(serving(provider))
        given = {
            ("profile",): "bold",
            ("store", "url"): f"sqlite://{folder}/state.db?timeout_s=10",
            ("upstreams", "openai", "base_url"): upstream,
            ("models", "*", "window"): WINDOW,
            **{tuple(name.split("__")): value for name, value in flags.items()},
        }
        app = await stack.enter_async_context(assembled(load(None, given, {})))
        base = await stack.enter_async_context(serving(app))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=60, trust_env=False))
        yield House(base, session, client)
        # Open event streams would hold the server back.
        app.leave()
