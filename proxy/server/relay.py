"""One call on its way through: the client's request, the upstream's answer, and how both end.

An `Exchange` is what a handler works with. Rules that it keeps for everybody: the client's leaving cancels whatever is
under way, at any time, and closes the upstream's connection; an answer that breaks off upstream breaks off for the
client too, nothing is made up; what the handler wants done at the end is done once, also then.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Literal

import msgspec

from proxy.errors import ProxyError, UpstreamBroken, UpstreamError
from proxy.server.admission import Admitted
from proxy.server.copying import Copying
from proxy.server.cycle import SERVED
from proxy.server.engines.base import Engine, UpstreamRequest, UpstreamResponse
from proxy.server.forwarding import Transform, forwarded
from proxy.server.heartbeat import Heartbeat, Send
from proxy.server.incoming import Incoming, Message, Receive, Served
from proxy.server.refusals import ErrorBody, send_json
from proxy.wire.encoding import decode_body
from proxy.wire.headers import Headers, content_length, first, is_event_stream, to_client, to_upstream, with_listed

_WHOLE_BYTES = 256 * 1024
"""Unmodelled bodies up to this size are read before they are sent: they can then be sent again on a dead connection."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What all exchanges of an App have in common."""

    engine: Engine
    limit_bytes: int
    """Of a request's body, also decoded."""
    heartbeat_s: float
    error_body: ErrorBody
    loop: asyncio.AbstractEventLoop = msgspec.field(default_factory=asyncio.get_running_loop)
    """That the calls run in: asking for it is a system call."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How an exchange ended."""

    outcome: Literal["complete", "truncated", "client_closed", "refused"]
    """complete · truncated: the upstream broke off · client_closed · refused: the answer was an error of ours."""
    status: int | None
    """The status that the client saw; None when it left before."""
    error: ProxyError | None = None
    observed: bool = True
    """False when `observe` could not be given the whole answer (unknown encoding, corrupt data, or it raised)."""


class Exchange:
    """One request and its answer. Created by the App; all methods belong to the task that created it."""

    def __init__(self, scope: Message, receive: Receive, send: Send, admitted: Admitted, terms: Terms) -> None:
        self.method: str = scope["method"]
        self.route = admitted.route
        self.client_headers: Headers = scope["headers"]
        """As the client sent them; what goes on may hold another key."""
        self.named = admitted.named
        """The first value under each name of the client's headers, but for the length of the body."""
        self.admitted = admitted
        self.on_end: Callable[[End], None] | None = None
        """Called once, after the last byte, whatever happened; must not raise."""
        self.end: End | None = None
        self._served: Served | None = scope.get("extensions", {}).get(SERVED)
        self._incoming = Incoming(receive, terms.limit_bytes, self._served)
        self._send = send
        self._terms = terms
        self._status: int | None = None
        self._copying: Copying | None = None
        self._answers: list[UpstreamResponse] = []

    @property
    def client_gone(self) -> bool:
        """Whether the client has left; the task that serves it is then being cancelled."""
        return self._incoming.gone

    # The request

    def read_body(self) -> Awaitable[bytes]:
        """The whole body as it came; raises BodyTooLarge or ClientGone. From here on the client is watched."""
        return self._incoming.read()

    def decode(self, body: bytes) -> bytes:
        """The body without its content encodings, bounded by the same limit.

        Raises BodyTooLarge, UnsupportedEncoding or BadRequest. The same object where nothing is encoded.
        """
        encoding = self.named.get(b"content-encoding")
        return body if encoding is None else decode_body(body, encoding, self._terms.limit_bytes)

    async def send_upstream(
        self,
        body: bytes | AsyncIterator[bytes] | None,
        *,
        drop: Collection[bytes] = (),
        add: Sequence[tuple[bytes, bytes]] = (),
        meanwhile: Callable[[], object] | None = None,
    ) -> UpstreamResponse:
        """Send a body with the client's headers and wait for the answer's head. Raises UpstreamError.

        A body that was decoded and changed: pass `drop=(b"content-encoding",)`. May be called again; an answer that
        is not responded with is closed at the end. `meanwhile` is called once the request is on its way.
        """
        admitted = self.admitted
        if body is None or isinstance(body, bytes):
            if body is not None and not body and first(self.client_headers, b"content-length") is None:
                body = None
        elif (length := content_length(self.client_headers)) is not None:
            add = (*add, (b"content-length", b"%d" % length))
        changes = bool(drop or add)
        headers = [*to_upstream(admitted.headers, drop=drop), *add] if changes else admitted.headers
        if meanwhile is not None:
            # In the next turn of the loop: what the engine writes in this one leaves at its end.
            self._terms.loop.call_soon(meanwhile)
        try:
            answer = await self._terms.engine.send(
                UpstreamRequest(
                    method=self.method,
                    way=admitted.way,
                    target=admitted.target,
                    headers=headers,
                    lines=None if changes else admitted.lines,
                    body=body,
                )
            )
        except UpstreamError:
            if self._incoming.too_large is not None:
                raise self._incoming.too_large from None
            raise
        self._answers.append(answer)
        return answer

    def side_request(self, path: str, body: bytes, header: tuple[bytes, bytes] | None = None) -> UpstreamRequest:
        """A request of ours with the client's credentials, whose answer we read ourselves: plain, not streamed.

        The query stays but for `alt=sse`: it may hold a key. `header`: needed by the body, added to the client's list.
        """
        admitted = self.admitted
        headers = to_upstream(admitted.headers, drop=(b"content-encoding", b"accept-encoding", b"accept"))
        headers = with_listed(headers, *header) if header is not None else headers
        parts = [part for part in admitted.query.split(b"&") if part and part != b"alt=sse"]
        target = path.encode("latin-1") + (b"?" + b"&".join(parts) if parts else b"")
        return UpstreamRequest(method=self.method, way=admitted.way, target=target, headers=headers, body=body)

    async def send_streaming(self) -> UpstreamResponse:
        """Send the client's body as it arrives, unread; small ones in one piece. Raises as `send_upstream`."""
        length = content_length(self.client_headers)
        chunked = b"transfer-encoding" in self.named
        if not chunked and (length is None or length <= _WHOLE_BYTES):
            return await self.send_upstream(await self.read_body())
        return await self.send_upstream(self._incoming.pieces())

    # The answer

    async def respond(
        self,
        answer: UpstreamResponse,
        *,
        extra: Sequence[tuple[bytes, bytes]] = (),
        held: Sequence[bytes] = (),
        transform: Transform | None = None,
        observe: Callable[[bytes], None] | None = None,
        heartbeat: bool = False,
    ) -> End:
        """Relay an answer: head with `extra` headers, then each chunk at once. Returns how it ended.

        `held`: chunks taken with `answer.read()` before. `observe` gets a decoded copy, some chunks at a time, cut anywhere,
        and all of it before this returns; what it raises is swallowed (`End.observed`). `transform` gets each chunk of an
        answer without content encoding and returns what the client gets (it may keep bytes back), and b"" at a clean end for
        what it still holds; encoded answers pass untouched. `heartbeat`: comment lines while an event stream is silent.
        """
        head = to_client(answer.headers, status=answer.status)
        encoding = first(head, b"content-encoding")
        if encoding is not None:
            transform = None
        if transform is not None:
            head = [header for header in head if header[0] != b"content-length"]
        head += extra
        copying = self._copying = Copying(observe, encoding) if observe is not None else None
        self._status = answer.status
        last = answer.rest() if transform is None and not held else None
        # A transform may keep all back that is here.
        follows = None if transform is not None else last is not None or bool(held) or answer.ready
        if self._served is None or not self._served.start(answer.status, head, body_follows=follows):
            await self._send({"type": "http.response.start", "status": answer.status, "headers": head})
        if last is None:
            beats = heartbeat and encoding is None and is_event_stream(head)
            last = await self._forwarded(answer, held, transform, copying, beats=beats)
        if not answer.complete:
            return self._ended("truncated", answer.error or UpstreamBroken("the upstream's answer broke off"))
        piece = last if transform is None else (transform(last) if last else b"") + transform(b"")
        if self._served is None or not self._served.finish(piece):
            await self._send({"type": "http.response.body", "body": piece, "more_body": False})
        # No sooner: who leaves while the last bytes still wait for room has left before the end.
        self._incoming.answered(whole=True)
        if copying is not None and last:
            copying.take(last)
        return self._ended("complete")

    async def refuse(self, error: ProxyError, *, extra: Sequence[tuple[bytes, bytes]] = ()) -> End:
        """Answer with an error of ours in the client's format; once a head is out, the connection just ends."""
        # The traceback's frames know this exchange, which keeps the error: both would wait for the garbage collector.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        if self._status is None:
            self._status = error.status
            body = self._terms.error_body(self.route, error.status, error.kind, str(error))
            self._incoming.answered(whole=True)
            self.end = End(outcome="refused", status=error.status, error=error)
            await send_json(self._send, error.status, body, extra)
        elif self.end is None:
            return self._ended("truncated", error)
        return self.end

    async def close(self) -> None:
        """Let go of everything and settle. Called once, by the App."""
        end = self.end or End(
            outcome="client_closed" if self.client_gone else "truncated",
            status=self._status,
            observed=self._observed(),
        )
        self.end = end
        if end.outcome not in ("complete", "refused"):
            self._incoming.answered(whole=False)
        try:
            for answer in self._answers:
                if not answer.complete:
                    await answer.aclose()
        finally:
            # What is called knows this exchange: the two must not hold each other, with all bodies, until a collection.
            on_end, self.on_end = self.on_end, None
            if on_end is not None:
                on_end(end)

    # Inside

    async def _forwarded(
        self,
        answer: UpstreamResponse,
        held: Sequence[bytes],
        transform: Transform | None,
        copying: Copying | None,
        *,
        beats: bool,
    ) -> bytes:
        """See `forwarded`."""
        if not beats:
            return await forwarded(answer, held, transform, copying, self._send, self._served)
        beat = Heartbeat(self._send, self._terms.heartbeat_s)
        try:
            return await forwarded(answer, held, transform, copying, beat.forward, None)
        finally:
            await beat.stop()

    def _ended(self, outcome: Literal["complete", "truncated"], error: ProxyError | None = None) -> End:
        self.end = End(outcome=outcome, status=self._status, error=error, observed=self._observed())
        return self.end

    def _observed(self) -> bool:
        if self._copying is None:
            return True
        self._copying.flush()
        return self._copying.whole


async def relay(exchange: Exchange) -> None:
    """The handler for calls that nobody models: both bodies stream through unread."""
    await exchange.respond(await exchange.send_streaming())
