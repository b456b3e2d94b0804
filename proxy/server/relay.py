"""One call on its way through: the client's request, the upstream's answer, and how both end.

An `Exchange` is what a handler works with. Rules that it keeps for everybody: the client's leaving cancels whatever is
under way, at any time, and closes the upstream's connection; an answer that breaks off upstream breaks off for the
client too, nothing is made up; what the handler wants done at the end is done once, in bounded time, also then.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proxy.errors import BodyTooLarge, ProxyError, UpstreamBroken, UpstreamError
from proxy.server.engines.base import Engine, UpstreamRequest, UpstreamResponse
from proxy.server.heartbeat import Heartbeat
from proxy.settings.values import Upstream
from proxy.wire.encoding import ChunkDecoder, decode_body
from proxy.wire.headers import Headers, content_length, first, to_client, to_upstream
from proxy.wire.path import Route

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ErrorBody = Callable[[Route | None, int, str, str], bytes]

SETTLE_S = 5.0
"""How long `on_end` may take before it goes on without anybody waiting."""
_WHOLE_BYTES = 256 * 1024
"""Unmodelled bodies up to this size are read before they are sent: they can then be sent again on a dead connection."""

_settling: set[asyncio.Task[None]] = set()


class ClientGone(Exception):
    """The client closed its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
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

    def __init__(
        self,
        scope: Message,
        receive: Receive,
        send: Send,
        *,
        route: Route,
        upstream: Upstream,
        caller: str,
        headers: Headers,
        query: bytes,
        engine: Engine,
        limit_bytes: int,
        heartbeat_s: float,
        error_body: ErrorBody,
    ) -> None:
        self.method: str = scope["method"]
        self.route = route
        self.upstream = upstream
        self.caller = caller
        """Name of the proxy key that came; empty when none is required."""
        self.client_headers: Headers = scope["headers"]
        """As the client sent them; `to_upstream` of `headers` is what goes on."""
        self.query = query
        self.on_end: Callable[[End], Awaitable[None]] | None = None
        """Called once, after the last byte, whatever happened; shielded, waited for `SETTLE_S` at most."""
        self.client_gone = False
        self.end: End | None = None
        self._receive = receive
        self._send = send
        self._headers = headers
        self._target = route.rest_path.encode("latin-1") + (b"?" + query if query else b"")
        self._engine = engine
        self._limit_bytes = limit_bytes
        self._heartbeat_s = heartbeat_s
        self._error_body = error_body
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._status: int | None = None
        self._observed = True
        self._body_error: BodyTooLarge | None = None
        self._answers: list[UpstreamResponse] = []

    # The request

    async def read_body(self) -> bytes:
        """The whole body as it came; raises BodyTooLarge or ClientGone. From here on the client is watched."""
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body", False):
            pieces = [piece async for piece in self._pieces(body)]
            return b"".join(pieces)
        self._check_size(len(body))
        if message["type"] == "http.disconnect":
            self.client_gone = True
            raise ClientGone
        self._watch()
        return body

    def decode(self, body: bytes) -> bytes:
        """The body without its content encodings, bounded by the same limit.

        Raises BodyTooLarge, UnsupportedEncoding or BadRequest. The same object where nothing is encoded.
        """
        encoding = first(self._headers, b"content-encoding")
        return body if encoding is None else decode_body(body, encoding, self._limit_bytes)

    async def send_upstream(
        self,
        body: bytes | AsyncIterator[bytes] | None,
        *,
        drop: Iterable[bytes] = (),
        add: Sequence[tuple[bytes, bytes]] = (),
        target: bytes | None = None,
    ) -> UpstreamResponse:
        """Send a body with the client's headers and wait for the answer's head. Raises UpstreamError.

        A body that was decoded and changed: pass `drop=(b"content-encoding",)`. May be called again; an answer that
        is not responded with is closed at the end.
        """
        headers = to_upstream(self._headers, drop=drop)
        headers += add
        if isinstance(body, bytes | None):
            if body is not None and not body and first(self._headers, b"content-length") is None:
                body = None
        elif (length := content_length(self._headers)) is not None:
            headers.append((b"content-length", b"%d" % length))
        request = UpstreamRequest(
            method=self.method,
            url_base=self.upstream.base_url.rstrip("/"),
            target=target or self._target,
            headers=headers,
            body=body,
            timeout_s=self.upstream.timeout_s,
            ca_file=self.upstream.ca_file or None,
        )
        try:
            answer = await self._engine.send(request)
        except UpstreamError:
            if self._body_error is not None:
                raise self._body_error from None
            raise
        self._answers.append(answer)
        return answer

    async def send_streaming(self) -> UpstreamResponse:
        """Send the client's body as it arrives, unread; small ones in one piece. Raises as `send_upstream`."""
        length = content_length(self._headers)
        chunked = first(self._headers, b"transfer-encoding") is not None
        if not chunked and (length is None or length <= _WHOLE_BYTES):
            return await self.send_upstream(await self.read_body())
        return await self.send_upstream(self._pieces())

    # The answer

    async def respond(
        self,
        answer: UpstreamResponse,
        *,
        extra: Sequence[tuple[bytes, bytes]] = (),
        held: Iterable[bytes] = (),
        transform: Callable[[bytes], bytes] | None = None,
        observe: Callable[[bytes], None] | None = None,
        heartbeat: bool = False,
    ) -> End:
        """Relay an answer: head with `extra` headers, then each chunk at once. Returns how it ended.

        `held`: chunks taken from `answer.chunks()` before. `observe` gets a decoded copy of each chunk, cut anywhere;
        what it raises is swallowed (`End.observed`). `transform` gets each chunk of an answer without content encoding
        and returns what the client gets (it may keep bytes back), and b"" at a clean end for what it still holds;
        encoded answers pass untouched. `heartbeat`: comment lines while an event stream is silent.
        """
        encoding = first(to_client(answer.headers, status=answer.status), b"content-encoding")
        if encoding is not None:
            transform = None
        head = to_client(answer.headers, status=answer.status, drop=(b"content-length",) if transform else ())
        head += extra
        beat = None
        if heartbeat and encoding is None and _is_event_stream(head):
            beat = Heartbeat(self._send, self._heartbeat_s)
        watch = self._observer(observe, encoding) if observe is not None else None
        await self._start(answer.status, head)
        try:
            await self._forward(answer, held, transform, watch, beat.forward if beat is not None else self._send)
        finally:
            if beat is not None:
                await beat.stop()
        if not answer.complete:
            self.end = End(
                outcome="truncated",
                status=self._status,
                error=answer.error or UpstreamBroken("the upstream's answer broke off"),
                observed=self._observed,
            )
            return self.end
        self.end = End(outcome="complete", status=self._status, observed=self._observed)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        return self.end

    async def refuse(self, error: ProxyError, *, extra: Sequence[tuple[bytes, bytes]] = ()) -> End:
        """Answer with an error of ours in the client's format; once a head is out, the connection just ends."""
        if self._status is None:
            self._status = error.status
            body = self._error_body(self.route, error.status, error.kind, str(error))
            self.end = End(outcome="refused", status=error.status, error=error)
            await send_json(self._send, error.status, body, extra)
        elif self.end is None:
            self.end = End(outcome="truncated", status=self._status, error=error, observed=self._observed)
        return self.end

    async def close(self) -> None:
        """Let go of everything and settle. Called once, by the App."""
        end = self.end or End(
            outcome="client_closed" if self.client_gone else "truncated", status=self._status, observed=self._observed
        )
        self.end = end
        if self._watcher is not None and end.outcome in ("client_closed", "truncated"):
            self._watcher.cancel()
        for answer in self._answers:
            await answer.aclose()
        if self.on_end is not None:
            await _settle(self.on_end(end))

    # Inside

    async def _start(self, status: int, headers: Headers) -> None:
        self._status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _forward(
        self,
        answer: UpstreamResponse,
        held: Iterable[bytes],
        transform: Callable[[bytes], bytes] | None,
        watch: Callable[[bytes], None] | None,
        send: Send,
    ) -> None:
        async for chunk in _joined(held, answer):
            piece = chunk if transform is None else transform(chunk)
            if piece:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if watch is not None:
                watch(chunk)
        if transform is not None and answer.complete and (rest := transform(b"")):
            await send({"type": "http.response.body", "body": rest, "more_body": True})

    def _observer(self, observe: Callable[[bytes], None], encoding: bytes | None) -> Callable[[bytes], None]:
        """`observe` behind a decoder, switched off by its first failure: a copy can never break the stream."""
        decoder = ChunkDecoder(encoding) if encoding is not None else None

        def watch(chunk: bytes) -> None:
            if not self._observed:
                return
            try:
                if decoder is None:
                    observe(chunk)
                else:
                    for piece in decoder.feed(chunk):
                        observe(piece)
            except Exception:  # noqa: BLE001  whatever a reader trips over is its own affair
                self._observed = False

        return watch

    async def _pieces(self, begun: bytes = b"") -> AsyncIterator[bytes]:
        """The body as it arrives, after what was read of it before."""
        total = len(begun)
        if begun:
            yield begun
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left()
                raise ClientGone
            piece: bytes = message.get("body", b"")
            total += len(piece)
            self._check_size(total)
            if not message.get("more_body", False):
                # The body's last piece: from here on only the client's leaving can come.
                self._watch()
                if piece:
                    yield piece
                return
            if piece:
                yield piece

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            self._body_error = BodyTooLarge(f"the request body is larger than {self._limit_bytes} bytes")
            raise self._body_error

    def _watch(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._wait_for_leaving())

    async def _wait_for_leaving(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        # The same message comes after a finished answer.
        if self.end is None:
            self._left()

    def _left(self) -> None:
        self.client_gone = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()


async def relay(exchange: Exchange) -> None:
    """The handler for calls that nobody models: both bodies stream through unread."""
    await exchange.respond(await exchange.send_streaming())


async def send_json(send: Send, status: int, body: bytes, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A whole JSON answer of ours."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _joined(held: Iterable[bytes], answer: UpstreamResponse) -> AsyncIterator[bytes]:
    for chunk in held:
        yield chunk
    async for chunk in answer.chunks():
        yield chunk


async def _settle(work: Awaitable[None]) -> None:
    async def run() -> None:
        await work

    task = asyncio.get_running_loop().create_task(run())
    _settling.add(task)
    task.add_done_callback(_settling.discard)
    # `wait` does not cancel what it waits for: a settling that takes too long, or whose call is cancelled, goes on.
    await asyncio.wait({task}, timeout=SETTLE_S)
    if task.done() and not task.cancelled():
        task.exception()


def _is_event_stream(headers: Headers) -> bool:
    return (first(headers, b"content-type") or b"").lower().startswith(b"text/event-stream")
