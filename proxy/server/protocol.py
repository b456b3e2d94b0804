"""uvicorn's HTTP protocol, with one system call or one copy where it makes two."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_PIECE_BYTES = 1024 * 1024
"""A body of known length reaches the application in pieces of this size, not of a socket's."""
_FEW_BYTES = 64 * 1024
LAST_CALLS_S = 1
"""How long a connection without a call stays open when the server ends: a call may be on its way, and whoever sent it cannot
tell whether it was read, so it is not sent again."""
LEAVING = "pruning_proxy.leaving"
"""ASGI extension: a function that is told whom to call when the client leaves (None: nobody any more)."""


class Protocol(HttpToolsProtocol):
    """As its base, but for four things.

    The transport holds an answer's head back until the next write, or the end of this loop turn. A large body is
    gathered, joined once, before the application is woken for it. And an application that has read the whole body can
    have itself called when the client leaves: waiting for that in `receive` takes a task for every call. And a server
    that ends says so in its last answers (`connection: close`) before it closes a connection that is kept for more.
    """

    _ending = False

    _gathered: list[bytes] | None = None
    _gathered_bytes = 0
    _when_left: Callable[[], None] | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(_Corked(transport, self.loop))  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        super().connection_lost(exc)
        when_left, self._when_left = self._when_left, None
        if when_left is not None:
            when_left()

    def on_message_begin(self) -> None:
        """See httptools."""
        super().on_message_begin()
        self.scope["extensions"] = {LEAVING: self._watch}  # type: ignore[dict-item]  # of ours

    def on_headers_complete(self) -> None:
        """See httptools."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        self._gathered = [] if length.isdigit() and int(length) > _FEW_BYTES else None
        self._gathered_bytes = 0
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        if self._gathered is None or self.cycle.response_complete:
            super().on_body(body)
            return
        self._gathered.append(body)
        self._gathered_bytes += len(body)
        if self._gathered_bytes >= _PIECE_BYTES:
            self._deliver(self._gathered)
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._gathered:
            self._deliver(self._gathered)
        super().on_message_complete()

    def shutdown(self) -> None:
        """See uvicorn: the server ends."""
        self._ending = True
        self.timeout_keep_alive = LAST_CALLS_S
        if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]  # None before the first call
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(LAST_CALLS_S, self.timeout_keep_alive_handler)
        elif not self.cycle.response_started:
            self.cycle.keep_alive = False

    def _watch(self, when_left: Callable[[], None] | None) -> None:
        self._when_left = when_left
        if when_left is not None:
            # A paused transport notices nothing, and the last piece of a body may have paused it.
            self.flow.resume_reading()

    def _deliver(self, gathered: list[bytes]) -> None:
        whole = b"".join(gathered)
        # Bytes where the base has a bytearray: it only adds to it and makes bytes of it, which then is no copy.
        self.cycle.body = self.cycle.body + whole if self.cycle.body else whole  # type: ignore[assignment]
        self.cycle.message_event.set()
        gathered.clear()
        self._gathered_bytes = 0


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
