"""uvicorn's HTTP protocol, with one system call where it makes two: head and first chunk leave together."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Protocol(HttpToolsProtocol):
    """As its base; the transport holds an answer's head back until the next write, or the end of this loop turn."""

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(_Corked(transport, self.loop))  # type: ignore[arg-type]


class _Corked:
    """A transport that delays heads. Everything but writing is the real transport's."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._transport, name)
        # Looked up once per connection.
        setattr(self, name, value)
        return value

    def write(self, data: bytes) -> None:
        """See asyncio. A chunk that looks like a head only waits for the end of the turn."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """See asyncio."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)
