"""One request and its answer, as an ASGI application sees them."""

import asyncio
from collections.abc import Awaitable, Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import structlog

from proxy.wire.headers import Headers, first, lines_of
from proxy.wire.status import STATUS_LINES

if TYPE_CHECKING:
    from proxy.server.protocol import Protocol

SERVED = "pruning_proxy.served"
"""ASGI extension: the `Cycle`, for what it offers beyond ASGI."""
LASTING = "pruning_proxy.lasting"
"""In the scope: a dict for what an application keeps from call to call, as long as the connection lasts."""
_PIECE_BYTES = 1024 * 1024
"""A body of known length reaches the application in pieces of this size, not of a socket's."""
_FEW_BYTES = 64 * 1024
"""More of any other body is not read before the application has taken it."""
_NO_BODY = frozenset({204, 304})
_NAME = itemgetter(0)
_FAILED = b"Internal Server Error"

log = structlog.get_logger("proxy.server")


class Cycle:
    """See the module."""

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_head",
        "_knows_chunks",
        "_length_known",
        "_method",
        "_missing_bytes",
        "_owes_continue",
        "_taken_bytes",
        "_task",
        "_told",
        "_told_event",
        "_when_left",
        "answered",
        "gone",
        "is_whole",
        "keep_alive",
        "scope",
        "started",
    )

    def __init__(self, connection: "Protocol", scope: dict[str, Any], *, keep_alive: bool) -> None:
        headers: Headers = scope["headers"]
        names = list(map(_NAME, headers))
        scope["extensions"] = {SERVED: self}
        self.scope: dict[str, Any] | None = scope
        """Until the call begins."""
        self.keep_alive = keep_alive
        """The connection may serve another call behind this one."""
        self.is_whole = False
        """The request is all here."""
        self.started = False
        self.answered = False
        self.gone = False
        """The client left before its answer was whole."""
        self._connection = connection
        self._method: str = scope["method"]
        self._knows_chunks = scope["http_version"] != "1.0"
        self._owes_continue = b"expect" in names and dict(headers)[b"expect"].lower() == b"100-continue"
        self._length_known = b"content-length" in names
        self._body: list[bytes] = []
        self._taken_bytes = 0
        self._told = False
        """There is something for who receives."""
        self._told_event: asyncio.Event | None = None
        """Made by the first who has to wait for it: mostly a body is here before anybody asks."""
        self._head = b""
        self._chunked = False
        self._missing_bytes: int | None = None
        """Of a body whose length was told."""
        self._task: asyncio.Task[None] | None = None
        self._when_left: Callable[[], None] | None = None

    # For the connection

    def begin(self, app: Any) -> None:
        """Call the application."""
        # Its extensions know this object: the two must not keep each other until a collection.
        scope, self.scope = self.scope, None
        self._task = self._connection.loop.create_task(self._run(app, scope))
        self._connection.server.tasks.add(self._task)

    def take(self, body: bytes) -> bool:
        """A piece of the body. True: enough, until the application has taken it."""
        self._body.append(body)
        self._taken_bytes += len(body)
        enough = self._taken_bytes >= (_PIECE_BYTES if self._length_known else _FEW_BYTES)
        if enough or not self._length_known:
            self._tell()
        return enough

    def ended(self) -> None:
        """The request is all here."""
        self.is_whole = True
        self._tell()

    def left(self) -> None:
        """The client is gone."""
        self.gone = True
        self._tell()
        when_left, self._when_left = self._when_left, None
        if when_left is not None and self._task is not None:
            when_left()
            self._task.cancel()

    # For an application that knows more than ASGI: see `incoming.Served`

    def whole(self, when_left: Callable[[], None]) -> bytes | None:
        """See `Served.whole`."""
        if not self.is_whole or self.gone or self._owes_continue:
            return None
        self._when_left = when_left
        self._connection.resume_reading()
        return self._taken()

    def watch(self, when_left: Callable[[], None] | None) -> None:
        """See `Served.watch`."""
        self._when_left = when_left
        if self.gone:
            self.left()
        elif when_left is not None:
            # A paused transport notices nothing, and the last piece of a body may have paused it.
            self._connection.resume_reading()

    def start(self, status: int, headers: Headers, *, body_follows: bool | None) -> bool:
        """See `Served.start`."""
        if self._connection.room is not None:
            return False
        if not self.gone:
            self._start(status, headers, body_follows=body_follows)
        return True

    def finish(self, body: bytes) -> bool:
        """See `Served.finish`."""
        if self._connection.room is not None:
            return False
        if not self.gone:
            self._continue(body, more=False)
        return True

    def pass_on(self, body: bytes) -> bool:
        """See `Served.pass_on`."""
        if self.gone:
            return False
        self._continue(body, more=True)
        return self._connection.room is None

    # ASGI

    async def receive(self) -> dict[str, Any]:
        """See ASGI."""
        if self._owes_continue and not self.started:
            self._owes_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._connection.resume_reading()
        if not self._told:
            await self._wait()
        if self.gone or self.answered:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self._taken(), "more_body": not self.is_whole}

    async def send(self, message: dict[str, Any]) -> None:
        """See ASGI. What is sent to a client that has left is dropped."""
        room = self._connection.room
        if room is not None:
            await room.wait()
        if self.gone:
            return
        kind = message["type"]
        if kind == "http.response.body" and self.started and not self.answered:
            self._continue(message.get("body", b""), more=message.get("more_body", False))
        elif kind == "http.response.start" and not self.started:
            self._start(message["status"], self._without_framing(message.get("headers", ())))
        else:
            raise RuntimeError(f"{kind} is not what an application may send now")

    # Inside

    def _taken(self) -> bytes:
        """What has come of the body since the last time."""
        self._told = False
        body = b"".join(self._body)
        self._body.clear()
        self._taken_bytes = 0
        return body

    def _tell(self) -> None:
        self._told = True
        if self._told_event is not None:
            self._told_event.set()

    async def _wait(self) -> None:
        event = self._told_event = self._told_event or asyncio.Event()
        event.clear()
        await event.wait()

    async def _run(self, app: Callable[..., Awaitable[None]], scope: Any) -> None:
        try:
            await app(scope, self.receive, self.send)
        except Exception as error:  # noqa: BLE001  whatever it is, the connection goes on or ends properly
            log.error("application_failed", error_type=type(error).__name__)  # noqa: TRY400  its text may be content
        finally:
            task, self._task = self._task, None
            if task is not None:
                self._connection.server.tasks.discard(task)
            if not self.answered and not self.gone:
                self._give_up()

    def _give_up(self) -> None:
        if self.started:
            self._flush()
            self._connection.close()
            return
        self.keep_alive = False
        self._start(500, [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_FAILED))])
        self._continue(_FAILED, more=False)

    def _start(self, status: int, headers: Headers, *, body_follows: bool | None = None) -> None:
        length = first(headers, b"content-length")
        missing_bytes = int(length) if length is not None else None
        chunked, framing = False, b""
        if self._method == "HEAD" or status in _NO_BODY:
            missing_bytes = 0
        elif missing_bytes is None and self._knows_chunks:
            chunked, framing = True, b"transfer-encoding: chunked\r\n"
        if not self.keep_alive:
            framing += b"connection: close\r\n"
        lines = lines_of(headers)
        # Two bytes behind each line; counting each of them takes twice as long.
        if len(lines) - len(lines.translate(None, b"\r\n")) != 2 * len(headers):
            raise RuntimeError("a header of the answer holds a line end")
        self.started = True
        self._chunked = chunked
        self._missing_bytes = missing_bytes
        self._head = b"%b\r\n%b%b\r\n" % (STATUS_LINES[status], lines, framing)
        if body_follows is None:
            self._connection.loop.call_soon(self._flush)
        elif not body_follows:
            self._flush()

    def _without_framing(self, headers: Headers) -> Headers:
        """The headers but for what is written anew: how the body is framed, and whether the connection goes on."""
        kept: Headers = []
        for name, value in headers:
            if name == b"connection":
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
            elif name != b"transfer-encoding":
                kept.append((name, value))
        return kept

    def _continue(self, body: bytes, *, more: bool) -> None:
        data = body
        if self._method == "HEAD":
            data = b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                data += b"0\r\n\r\n"
        elif self._missing_bytes is not None:
            self._missing_bytes -= len(body)
            if self._missing_bytes < 0 or (self._missing_bytes and not more):
                raise RuntimeError("the answer's body has another length than was told")
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._connection.write(data)
        if not more:
            self.answered = True
            self._tell()
            self._connection.finished(self)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._connection.write(head)
