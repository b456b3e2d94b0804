import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager

import httpx
import pytest

from proxy.server.control import events as module
from proxy.server.control.events import stream
from proxy.server.feed import MOST_WATCHERS, Feed
from proxy.wire.sse import EventSplitter
from tests.server.control.lodge import a_desk, a_lodge, asking

pytestmark = pytest.mark.anyio

EVENTS = "/_proxy/api/events"


@asynccontextmanager
async def listening(lodge):
    """Gives a function that waits for the next `count` events: their names and values."""
    splitter = EventSplitter()
    found = []
    async with lodge.http.stream("GET", EVENTS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        chunks = answer.aiter_bytes()

        async def heard(count):
            async with asyncio.timeout(5):
                while len(found) < count:
                    chunk = await anext(chunks)
                    found.extend(event for event in splitter.feed(chunk) if event.data)
            return [(event.name, json.loads(event.data)) for event in found]

        assert await anext(chunks) == b": connected\n\n"
        yield heard


async def test_r42_each_settled_call_is_an_event():
    async with a_lodge() as lodge, listening(lodge) as heard:
        answer = await lodge.chat([{"role": "user", "content": "hush, hush"}])
        ((kind, call),) = await heard(1)

    assert kind == "call"
    assert call["session"] == answer.headers["x-context-session"]
    assert call["actual"] == answer.json()["usage"]["prompt_tokens"]
    assert {"at", "window", "paid", "outcome", "removed_tokens"} <= set(call)
    assert "hush" not in json.dumps(call)


async def test_orders_are_events():
    async with a_lodge() as lodge, listening(lodge) as heard:
        await lodge.http.put("/_proxy/api/mode", json={"mode": "off"})
        assert await heard(1) == [("mode", {"session": None, "mode": "off"})]


async def test_the_streams_are_bounded():
    desk = a_desk()
    with ExitStack() as watchers:
        for _ in range(MOST_WATCHERS):
            watchers.enter_context(desk.watch.feed.watching())
        async with asking(desk) as http:
            answer = await http.get(EVENTS)

    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "too_many_watchers")


async def test_whoever_leaves_is_no_watcher_any_more():
    feed = Feed()
    heard = stream(feed)
    await anext(heard)
    assert feed.watchers == 1

    await heard.aclose()
    assert feed.watchers == 0


async def test_silence_is_filled_with_comments(monkeypatch):
    monkeypatch.setattr(module, "SILENCE_S", 0.01)
    heard = stream(Feed())

    assert [await anext(heard) for _ in range(3)] == [b": connected\n\n", b": quiet\n\n", b": quiet\n\n"]
    await heard.aclose()


async def test_the_stream_ends_when_the_process_leaves():
    feed = Feed()
    heard = stream(feed)
    await anext(heard)
    feed.publish("store", {"healthy": True})
    feed.end()

    assert [piece async for piece in heard] == [b'event: store\ndata: {"healthy":true}\n\n']


def test_an_open_stream_does_not_hold_up_the_end_of_the_process():
    command = [sys.executable, "-m", "proxy", "serve", "--port", "0", "--store", "memory://"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        base = re.search(r"http://\S+", process.stdout.readline())[0]
        with httpx.stream("GET", base + EVENTS, timeout=10) as answer:
            pieces = answer.iter_bytes()
            assert next(pieces) == b": connected\n\n"
            process.send_signal(signal.SIGTERM)
            assert list(pieces) == []
        assert process.wait(10) == 0
