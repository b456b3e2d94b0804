"""Signs of life on a silent event stream: one comment line, at event boundaries only."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# One line end and no blank line: a blank line would make some clients dispatch an empty event.
_COMMENT: dict[str, Any] = {"type": "http.response.body", "body": b": \n", "more_body": True}
_BOUNDARY = (b"\n\n", b"\r\n\r\n")


class Heartbeat:
    """Sends a comment line whenever nothing was sent for `every_s` seconds and the last event has ended.

    Costs one timer per period, nothing per chunk but two attributes. `at_boundary` is True before the first byte.
    """

    def __init__(self, send: Send, every_s: float) -> None:
        self._send = send
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._tail = b"\n\n"
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(every_s, self._due)

    async def forward(self, message: MutableMapping[str, Any]) -> None:
        """Send a body message of the upstream's, and note where it ended."""
        self._busy = True
        await self._send(message)
        self._busy = False
        chunk = message["body"]
        self._tail = chunk[-4:] if len(chunk) >= 4 else (self._tail + chunk)[-4:]
        self._last = self._loop.time()

    async def stop(self) -> None:
        """No further beats; one under way is finished or given up first."""
        self._timer.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    def _due(self) -> None:
        now = self._loop.time()
        silent_s = now - self._last
        if silent_s < self._every_s:
            self._timer = self._loop.call_later(self._every_s - silent_s, self._due)
            return
        self._timer = self._loop.call_later(self._every_s, self._due)
        resting = self._task is None or self._task.done()
        if resting and not self._busy and self._tail.endswith(_BOUNDARY):
            self._last = now
            self._task = self._loop.create_task(self._beat())

    async def _beat(self) -> None:
        await self._send(dict(_COMMENT))
