"""The whole proxy in front of the strict loopback provider, in the test's own event loop."""

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from proxy.compaction.prompt import INSTRUCTION
from proxy.demo.provider import Answer, Asked, Provider, echo
from proxy.ledger.store import TurnQuery
from proxy.server.app import App
from proxy.server.engines import DEFAULT, ENGINES
from proxy.server.handler import Handler
from proxy.server.protocol import Protocol
from proxy.server.tokenizers import counter
from proxy.settings.values import Compact, ModelSettings, Prune, Settings, Upstream
from proxy.stores import open_store
from tests.builders import calls, result, said, user
from tests.serving import serving

MODEL = "gpt-4o"
"""A model whose tokenizer is ours, so that predictions are exact."""

EAGER = Prune(policy="always", protect_tokens=0, minimum_tokens=0)
NO_PRUNING = Prune(keep_recent_tool_results=10_000)
OFF = Compact(trigger="off")
UNAWARE = {"compact": Compact(max_summary_tokens=400)}
"""Nobody has told the window."""

RECORD = "## Goal\nFinish the work.\n## Done\nRead everything.\n## Next step\nAnswer."

o200k = counter("o200k_base")


def filler(label, tokens):
    """A text of about so many tokens, another one for each label."""
    return f"{label} " + "alpha beta gamma delta " * (tokens // 4)


def read_so_far(rounds=5, tokens=900):
    """A question, and results of so many tokens each."""
    history = [user("Please read it all.")]
    for number in range(rounds):
        history += [calls(f"c{number}"), result(f"c{number}", filler(f"file {number}", tokens))]
    return history


def long_history(rounds=8, tokens=600):
    """About 5,000 tokens in tool results, then a question."""
    return [*read_so_far(rounds, tokens), said("I have read it."), user("What does it say?")]


def is_summary_call(body):
    return json.dumps(INSTRUCTION[:80], ensure_ascii=False)[1:-1].encode() in body


def with_record(record=RECORD):
    """Answers that write this record when they are asked for one."""

    def answers(asked: Asked, headers) -> Answer:
        return Answer(text=record) if INSTRUCTION[:80] in asked.last_text else echo(asked, headers)

    return answers


def a_provider(**more):
    return Provider(o200k, **{"models": (MODEL,), "answers": with_record(), **more})


class Troubled:
    """A provider whose summary calls go wrong as `trouble(receive, send)` says; all others are served."""

    def __init__(self, provider, trouble):
        self.provider = provider
        self.trouble = trouble
        self.summaries = 0
        self.left = 0
        """Summary calls whose caller hung up while it waited."""

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.provider(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if is_summary_call(body):
            self.summaries += 1
            try:
                await self.trouble(receive, send)
            except Left:
                self.left += 1
            return
        first = True

        async def again():
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        await self.provider(scope, again, send)


class Left(Exception):
    """The other side hung up."""


def answering(status, body, content_type="application/json", *, whole=True):
    """Trouble: this answer; `whole` False breaks it off."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def trouble(receive, send):
        length = len(raw) if whole else len(raw) + 100
        headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": raw, "more_body": not whole})

    return trouble


def silent(seconds):
    """Trouble: nothing for so long, or until the other side leaves."""

    async def trouble(receive, send):
        try:
            message = await asyncio.wait_for(receive(), seconds)
        except TimeoutError:
            await answering(500, {"error": {"message": "too late"}})(receive, send)
            return
        if message["type"] == "http.disconnect":
            raise Left

    return trouble


def chat_answer(text="", *, finish="stop", **message):
    """A whole chat completion."""
    said = {"role": "assistant", "content": text, **message}
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    return {
        "id": "c",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
    } | {"usage": usage}


@dataclass
class House:
    base: str
    http: httpx.AsyncClient
    handler: Any
    ledger: Any
    settings: Settings = field(repr=False)

    async def chat(self, history, *, key="k1", headers=(), **fields):
        """One chat call; gives httpx's response, wholly read."""
        body = {"model": MODEL, "messages": history, **fields}
        send = {"authorization": f"Bearer {key}", **dict(headers)}
        return await self.http.post("/v1/chat/completions", json=body, headers=send)

    async def messages(self, history, *, headers=(), **fields):
        """One Anthropic call."""
        body = {"model": MODEL, "max_tokens": 500, "messages": history, **fields}
        send = {"x-api-key": "k1", "anthropic-version": "2023-06-01", **dict(headers)}
        return await self.http.post("/v1/messages", json=body, headers=send)

    async def turns(self, purpose=""):
        """The ledger's rows, oldest first."""
        rows = await self.ledger.turns(TurnQuery())
        return [turn for turn in reversed(rows) if not purpose or turn.purpose == purpose]

    async def idle(self):
        """Wait until nothing runs in the background."""
        await asyncio.wait_for(self._settled(), 30)

    async def _settled(self):
        while self.handler.shared.summarizer._running:
            await asyncio.sleep(0.005)


@asynccontextmanager
async def a_house(
    upstream, *, ledger=None, window=None, max_output=None, base_url=None, ask_usage=True, auto_cache=False, **sections
):
    """`upstream`: the ASGI app behind the proxy. `window`, `max_output`: of every model. Gives a House."""
    async with AsyncExitStack() as stack:
        url = base_url or await stack.enter_async_context(serving(upstream))
        there = Upstream(base_url=url, timeout_s=5.0, ask_usage=ask_usage, auto_cache=auto_cache)
        upstreams = dict.fromkeys(("openai", "anthropic", "gemini", "other"), there)
        models = {"*": ModelSettings(window=window, max_output=max_output)}
        settings = Settings(**{"upstreams": upstreams, "models": models, **sections})
        ledger = ledger or open_store("memory://", ttl_s=3600.0, clock=time.time)
        engine = ENGINES[DEFAULT]()
        handler = Handler(settings, ledger, engine)
        stack.push_async_callback(engine.aclose)
        stack.push_async_callback(handler.aclose)
        base = await stack.enter_async_context(serving(App(settings, engine, handler=handler.take), http=Protocol))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=10.0))
        yield House(base=base, http=http, handler=handler, ledger=ledger, settings=settings)


def eager(upstream, **more):
    """A proxy that replaces each old result and summarises nothing."""
    return a_house(upstream, **{"prune": EAGER, "compact": OFF, **more})
