"""The numbers behind `/metrics`: this process's own, and those of its fellow workers.

A scrape reaches any one worker, and must tell the same as at any other. So each writes its numbers into shared memory about
every `EVERY_S`, and the one that is asked adds the others' to its own. Nothing of it touches the path of a call.
"""

import asyncio
import contextlib
import time

import structlog

from proxy.reports.metric_sums import Summed, lasting, snapshot
from proxy.reports.metrics import Metrics, page_of
from proxy.server.slots import Slots

EVERY_S = 1.0
_MOST_SHARE = 0.01
"""Of a core: with a hundred models, writing takes 40 ms, and is then done every 4 s."""

log = structlog.get_logger("proxy")


class Numbers:
    """What `/metrics` shows."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._slots: Slots | None = None
        self._index = 0
        self._inherited = b""
        self._telling: asyncio.Task[None] | None = None
        self._complained = False

    def join(self, slots: Slots, index: int) -> None:
        """Be worker `index` of those that share the slots, and go on from what its predecessor has counted."""
        self._slots, self._index = slots, index
        self._inherited = lasting(slots.read(index))
        # The one place that keeps this task: it is cancelled and awaited in `aclose`.
        self._telling = asyncio.get_running_loop().create_task(self._tell())

    def page(self) -> bytes:
        """The exposition text. Takes some milliseconds where there are many models: for a thread."""
        if self._slots is None:
            return self._metrics.page()
        own = snapshot((self._metrics,))
        others = (self._slots.read(index) for index in range(len(self._slots)) if index != self._index)
        return page_of(Summed((own, self._inherited, *others)))

    async def aclose(self) -> None:
        """Stop telling the others."""
        if self._telling is not None:
            self._telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._telling

    async def _tell(self) -> None:
        while True:
            took = await asyncio.to_thread(self._write)
            await asyncio.sleep(max(EVERY_S, took / _MOST_SHARE))

    def _write(self) -> float:
        """Seconds of CPU that it took."""
        if self._slots is None:
            return 0.0
        began = time.thread_time()
        value = snapshot((Summed((snapshot((self._metrics,)), self._inherited)),))
        if not self._slots.write(self._index, value) and not self._complained:
            self._complained = True
            log.warning("metrics_not_shared", bytes=len(value))
        return time.thread_time() - began
