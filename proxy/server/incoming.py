"""The client's side of a call while it lasts: its body, and whether it is still there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from proxy.errors import BodyTooLarge

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Leaving = Callable[[Callable[[], None] | None], None]
"""Takes whom to call when the client leaves, or None for nobody any more (server.protocol)."""


class ClientGone(Exception):
    """The client closed its connection."""


class Incoming:
    """Reads the body once, whole or as it arrives, and from then on watches for the client's leaving.

    When the client leaves, the task that made this object is cancelled, whatever it waits for, and `gone` says why. The
    server says so where it knows `leaving`; else one task per call waits for it. The watch ends with `answered`.
    """

    def __init__(self, receive: Receive, limit_bytes: int, leaving: Leaving | None = None) -> None:
        self.gone = False
        self.too_large: BodyTooLarge | None = None
        """Set when the body went over the limit while somebody else was iterating over it."""
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._leaving = leaving
        self._owner = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._answered = False

    async def read(self) -> bytes:
        """The whole body as it came; raises BodyTooLarge or ClientGone."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise ClientGone
        body: bytes = message.get("body", b"")
        self._check_size(len(body))
        if message.get("more_body", False):
            return b"".join([body, *[piece async for piece in self.pieces(len(body))]])
        self._watch()
        return body

    async def pieces(self, read_bytes: int = 0) -> AsyncIterator[bytes]:
        """The body as it arrives, after `read_bytes` of it; raises as `read`."""
        total = read_bytes
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._left()
                raise ClientGone
            piece: bytes = message.get("body", b"")
            total += len(piece)
            self._check_size(total)
            more = message.get("more_body", False)
            if not more:
                # The last piece: from here on only the client's leaving can come.
                self._watch()
            if piece:
                yield piece

    def answered(self, *, whole: bool) -> None:
        """Nothing more is owed to the client. `whole`: its answer ended properly, so that the watch ends by itself."""
        self._answered = True
        if self._leaving is not None:
            # Once: from now on the connection may have a next call that watches.
            leaving, self._leaving = self._leaving, None
            leaving(None)
        if not whole and self._watcher is not None:
            self._watcher.cancel()

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            self.too_large = BodyTooLarge(f"the request body is larger than {self._limit_bytes} bytes")
            raise self.too_large

    def _watch(self) -> None:
        if self._leaving is not None:
            self._leaving(self._left)
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
        if self._owner is not None and self._owner is not asyncio.current_task():
            self._owner.cancel()
