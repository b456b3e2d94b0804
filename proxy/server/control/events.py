"""The event stream: one server-sent event per settled call, per decision, per change of state."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from proxy.server.control.desk import Desk, Wrong
from proxy.server.feed import MOST_WATCHERS, Event, Feed

SILENCE_S = 15.0
"""After so long without an event a comment is sent, so that nobody in between takes the stream for dead."""


def routes(desk: Desk) -> list[BaseRoute]:
    """The page, given what it works with."""
    feed = desk.watch.feed

    async def events(_request: Request) -> Response:
        if feed.watchers >= MOST_WATCHERS:
            raise Wrong(503, "too_many_watchers", f"at most {MOST_WATCHERS} event streams are open at a time")
        return StreamingResponse(stream(feed), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return [Route("/_proxy/api/events", events)]


async def stream(feed: Feed) -> AsyncIterator[bytes]:
    """Events as they come, until the process leaves or nobody listens."""
    with feed.watching() as watcher:
        yield b": connected\n\n"
        while True:
            if events := watcher.take():
                yield b"".join(map(_written, events))
            if feed.ended:
                return
            try:
                async with asyncio.timeout(SILENCE_S):
                    await watcher.news.wait()
            except TimeoutError:
                yield b": quiet\n\n"


def _written(event: Event) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.kind.encode(), msgspec.json.encode(event.fields))
