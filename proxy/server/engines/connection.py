"""One kept HTTP/1.1 connection to an upstream: bytes of a request in, the answer's head and chunks out.

httptools parses; this adds what an exchange needs: who waits, how the body is framed, how long silence may last, and
back-pressure both ways. One request at a time, never pipelined.

What is ugly: the parser cannot be told that a HEAD answer has no body, so it is replaced after one; and only the headers
tell that a body ends with its connection, so they are looked at here a second time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools

from proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from proxy.server.deadline import Deadline
from proxy.server.engines.arrivals import Arrivals
from proxy.server.engines.base import AGE_S, HEADER_LIMIT_BYTES, Grace, framed, pieces_of
from proxy.wire.headers import Headers

_PIECE_BYTES = 1024 * 1024
"""Larger request bodies are written in pieces, so that one call cannot hold up the loop: this much takes 0.4 ms."""
_JOINED_BYTES = 64 * 1024
"""Up to this size it is cheaper to join a body with its head than to write both."""
_HEAD_LIMIT_BYTES = 4 * HEADER_LIMIT_BYTES
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class Connection(asyncio.Protocol):
    """See the module."""

    def __init__(self) -> None:
        self.idle_since = 0.0  # by the clock AGE_S
        self.closed = False
        self.answered = False
        """Any byte of the current answer has come."""
        self.status = 0
        self.headers: Headers = []
        self.complete = False
        self.error: UpstreamError | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = self._new_parser()
        self.grace = Grace(self._loop)
        """For a request that goes out on this connection when it was kept."""
        self.has_head = False
        """Of the current answer."""
        self._busy = False
        self._expects_body = True
        self._keep = True
        self._head_bytes = 0
        self._arrived = Arrivals()
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._silence = Deadline(self._loop, self._fell_silent)
        self._timeout_s = 0.0
        self._unsent_bytes = 0
        """Of a piece of the request's body, when it was last asked whether the upstream takes any of it."""

    # The exchange

    def begin(
        self, head: bytes, body: bytes | AsyncIterator[bytes] | None, *, chunked: bool, is_head: bool, timeout_s: float
    ) -> None:
        """Send a request. The answer's head stands in the attributes once it `has_head`."""
        self._busy = True
        self.answered = self.complete = self.has_head = False
        self.error, self.headers, self._head_bytes = None, [], 0
        self._expects_body = not is_head
        self._timeout_s = timeout_s
        self._silence.set(timeout_s)
        if body is None or (isinstance(body, bytes) and len(body) <= _PIECE_BYTES):
            self._write(head, body or b"")
        else:
            self._write(head)
            pieces = pieces_of(body, _PIECE_BYTES) if isinstance(body, bytes) else body
            self._writer = self._loop.create_task(self._upload(pieces, chunked=chunked))

    def news(self) -> asyncio.Future[None]:
        """Done when something has come; for one at a time. Raises the error after which nothing can."""
        if self.error is not None:
            raise self.error
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def is_ready(self) -> bool:
        """There is something to take, or nothing more to come."""
        return self._arrived.size > 0 or self.complete or self.error is not None

    def is_over(self) -> bool:
        """Nothing more comes."""
        return self.complete or self.error is not None

    def take(self) -> bytes:
        """What has come of the body since the last time; b"" behind its end: `complete` or `error` then tells how."""
        piece = self._arrived.take()
        if self._arrived.held_back:
            self._resume_reading()
        return piece

    async def pour(self, into: Callable[[bytes], bool]) -> None:
        """What comes of the body to `into` as it comes, until that gives False, or only the last bytes are left for `take`."""
        self._arrived.into(into)
        if not self.complete:
            self._pass_on()
        try:
            while self._arrived.pours and not self.complete and self.error is None:
                await self.news()
        finally:
            self._arrived.into(None)

    def end(self) -> bool:
        """The exchange is over; True when the connection may serve another, else it is closed at once."""
        uploaded = self._writer is None or self._writer.done()
        reusable = self._busy and self.complete and self._keep and uploaded and not (self.closed or self._arrived.size)
        self._busy = False
        if reusable:
            self._writer = None
            self.idle_since = AGE_S()
        else:
            self.abort()
        return reusable

    def abort(self) -> None:
        """Close at once, without a goodbye."""
        self._let_go()
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if not self._busy or self.complete:
            # Nobody asked: an answer to nothing, or bytes behind a whole one.
            self._keep = False
            if not self._busy:
                self.abort()
            return
        self.answered = True
        if not self.has_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(UpstreamBroken("the upstream changed the protocol"))
        except httptools.HttpParserError as error:
            if not self.complete:
                self._fail(UpstreamBroken(f"the upstream's answer is not HTTP ({type(error).__name__})"))
            self._keep = False
        if not self.has_head and self._head_bytes > _HEAD_LIMIT_BYTES:
            self._fail(UpstreamBroken("the head of the upstream's answer is too long"))
        if not self.complete:
            self._silence.set(self._timeout_s)
            if self._arrived.pours:
                self._pass_on()
                return
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._let_go()
        if self._busy and not self.complete and self.error is None:
            # A body without framing ends with its connection.
            if exc is None and self.has_head and _FRAMING.isdisjoint(dict(self.headers)):
                self.complete = True
                self._keep = False
            else:
                self.error = UpstreamBroken("the upstream ended the connection early")
        # The parser knows this object: in a circle, both would stay until a full collection, which hardly ever comes.
        del self._parser
        self._wake()

    def pause_writing(self) -> None:
        """See asyncio."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """See asyncio."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # httptools

    def on_message_begin(self) -> None:
        """An answer; another one behind it is an answer to nothing, and must not reach the next call."""
        if self.complete:
            raise UpstreamBroken("bytes behind the end")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one trailer."""
        if not self.has_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole, of an interim answer or of the real one."""
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            return
        if not 200 <= status <= 599:
            self._fail(UpstreamBroken(f"the upstream answered with status {status}"))
            return
        self.status = status
        self.has_head = True
        self._keep = self._parser.should_keep_alive()
        if not self._expects_body or status in (204, 304):
            self.complete = True
            self._parser = self._new_parser()

    def on_body(self, body: bytes) -> None:
        """Bytes of the body, without their framing."""
        if self.complete:
            return
        if self._arrived.add(body) and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The end, of an interim answer or of the real one."""
        if self.has_head:
            self.complete = True
        else:
            self.headers = []

    # Inside

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        # As tolerant as browsers and other clients are towards servers.
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        return parser

    def _fell_silent(self) -> None:
        uploading = self._writer is not None and not self._writer.done()
        if uploading and self._writable is not None and self._transport is not None:
            before, self._unsent_bytes = self._unsent_bytes, self._transport.get_write_buffer_size()
            uploading = before != self._unsent_bytes
        if uploading or self._arrived.held_back:
            # It is not the upstream that is silent.
            self._silence.set(self._timeout_s)
        elif not self.complete:
            self._fail(UpstreamTimeout("the upstream sent nothing within timeout_s"))

    def _let_go(self) -> None:
        self.closed = True
        self._silence.close()
        self.grace.close()
        if self._writer is not None:
            self._writer.cancel()

    def _fail(self, error: UpstreamError) -> None:
        if self.error is None:
            self.error = error
        self._keep = False
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pass_on(self) -> None:
        """What has come to who takes it at once; a body's last bytes are for `take`."""
        self._arrived.pass_on()
        if self._arrived.held_back:
            self._resume_reading()
        if not self._arrived.pours:
            self._wake()

    def _write(self, data: bytes, body: bytes = b"") -> None:
        if self._transport is not None and not self.closed:
            if len(body) > _JOINED_BYTES:
                self._transport.writelines((data, body))
            else:
                self._transport.write(data + body)

    async def _upload(self, pieces: AsyncIterator[bytes], *, chunked: bool) -> None:
        try:
            async for piece in framed(pieces) if chunked else pieces:
                self._write(piece)
                self._unsent_bytes = 0
                if self._writable is not None:
                    await self._writable
            self._silence.set(self._timeout_s)
        except Exception:  # noqa: BLE001  whatever the body's source raised is known to its owner
            self._fail(UpstreamBroken("the request's body broke off"))

    def _resume_reading(self) -> None:
        self._arrived.held_back = False
        self._silence.set(self._timeout_s)
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()
