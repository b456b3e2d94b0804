"""A client that speaks bytes, and a proxy to speak to."""

import asyncio
from contextlib import asynccontextmanager

from proxy.server.app import App
from proxy.server.engines import DEFAULT, ENGINES
from proxy.server.protocol import Protocol
from proxy.settings.values import Server, Settings, Upstream
from tests.serving import serving


@asynccontextmanager
async def a_proxy(url, *, server=None, upstream=None, **parts):
    """A proxy whose openai, anthropic and gemini upstreams stand at `url`; gives its base URL."""
    there = Upstream(base_url=url, **({"timeout_s": 5.0} | (upstream or {})))
    settings = Settings(
        server=Server(**(server or {})), upstreams=dict.fromkeys(("openai", "anthropic", "gemini"), there)
    )
    engine = ENGINES[DEFAULT]()
    try:
        async with serving(App(settings, engine, **parts), http=Protocol) as base:
            yield base
    finally:
        await engine.aclose()


class RawClient:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, raw):
        self.writer.write(raw)
        await self.writer.drain()

    async def head(self):
        """Status and headers of the next answer, interim ones passed over."""
        while True:
            head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).decode("latin-1")
            first, *lines = head.split("\r\n")[:-2]
            status = int(first.split(" ")[1])
            if status >= 200:
                return status, [tuple(line.lower().split(": ", 1)) for line in lines]

    async def rest(self):
        """Everything until the proxy closes."""
        return await asyncio.wait_for(self.reader.read(), 30)

    async def body(self, headers):
        """A whole body by its framing."""
        known = dict(headers)
        if "content-length" in known:
            return await self.reader.readexactly(int(known["content-length"]))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return body

    def leave(self):
        self.writer.transport.abort()


@asynccontextmanager
async def a_client(base):
    host, port = base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()


def a_call(body=b"{}", *, path="/v1/chat/completions", method="POST", headers=()):
    """A request's bytes."""
    lines = [f"{method} {path} HTTP/1.1", "host: proxy", *headers]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")
