"""The client's side of a call while it lasts: its body, and whether it is still there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from proxy.errors import BodyTooLarge
from proxy.wire.headers import Headers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Served(Protocol):
    """What a server may offer beyond ASGI (server.cycle does)."""

    def whole(self, when_left: Callable[[], None]) -> bytes | None:
        """The whole body where it is here, and from now on as by `watch`. None: it is to be received."""

    def watch(self, when_left: Callable[[], None] | None) -> None:
        """When the client leaves, call this and cancel the task of the call. None: no longer."""

    def start(self, status: int, headers: Headers, *, body_follows: bool | None) -> bool:
        """Send the answer's head without waiting. False: it is for `send`, which waits for room.

        Of how the body is framed and whether the connection goes on, the headers say the length and nothing else.
        `body_follows`: whether the body's first bytes come next, without waiting for anything. None: not known; then the head
        waits for them, at most until the end of this loop turn, which costs another.
        """

    def pass_on(self, body: bytes) -> bool:
        """Send a piece of the answer's body without waiting. False: the next one is for `send`, which waits for room."""

    def finish(self, body: bytes) -> bool:
        """Send the last piece of the answer's body without waiting. False: it is for `send`, which waits for room."""


class ClientGone(Exception):
    """The client closed its connection."""


class Incoming:
    """Reads the body once, whole or as it arrives, and from then on watches for the client's leaving.

    When the client leaves, the task that made this object is cancelled, whatever it waits for, and `gone` says why. The
    server does so where it is `served`; else one task per call waits for it. The watch ends with `answered`.
    """

    def __init__(self, receive: Receive, limit_bytes: int, served: Served | None = None) -> None:
        self.gone = False
        self.too_large: BodyTooLarge | None = None
        """Set when the body went over the limit while somebody else was iterating over it."""
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._served = served
        # Asking for it is a system call.
        self._owner = asyncio.current_task() if served is None else None
        self._watcher: asyncio.Task[None] | None = None
        self._answered = False

    async def read(self) -> bytes:
        """The whole body as it came; raises BodyTooLarge or ClientGone."""
        if self._served is not None and (whole := self._served.whole(self._left)) is not None:
            if len(whole) > self._limit_bytes:
                raise self._refused()
            return whole
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise ClientGone
        body: bytes = message.get("body", b"")
        if len(body) > self._limit_bytes:
            raise self._refused()
        if message.get("more_body", False):
            return b"".join([body, *[piece async for piece in self._pieces(len(body))]])
        self._watch()
        return body

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives, for whichever task; raises as `read`. The client is watched at once."""
        if self._served is not None:
            self._served.watch(self._left)
        return self._pieces(0)

    async def _pieces(self, read_bytes: int) -> AsyncIterator[bytes]:
        total = read_bytes
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left()
                raise ClientGone
            piece: bytes = message.get("body", b"")
            total += len(piece)
            if total > self._limit_bytes:
                raise self._refused()
            more = message.get("more_body", False)
            if not more:
                # The last piece: from here on only the client's leaving can come.
                self._watch()
            if piece:
                yield piece

    def answered(self, *, whole: bool) -> None:
        """Nothing more is owed to the client. `whole`: its answer ended properly, so that the watch ends by itself.

        Said again, it changes nothing.
        """
        if self._answered:
            return
        self._answered = True
        if self._served is not None:
            self._served.watch(None)
        if not whole and self._watcher is not None:
            self._watcher.cancel()

    def _refused(self) -> BodyTooLarge:
        self.too_large = BodyTooLarge(f"the request body is larger than {self._limit_bytes} bytes (server.max_body_mb)")
        return self.too_large

    def _watch(self) -> None:
        if self._answered:
            return
        if self._served is not None:
            self._served.watch(self._left)
            return
        self._watcher = asyncio.get_running_loop().create_task(self._wait_for_leaving())

    async def _wait_for_leaving(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        # The same message comes after a finished answer.
        if not self._answered:
            self._left()

    def _left(self) -> None:
        self.gone = True
        # Where the call is served, it has been cancelled.
        if self._owner is not None and self._owner is not asyncio.current_task():
            self._owner.cancel()
