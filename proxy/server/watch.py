"""Everything that is to be noticed of a call, in one place: the numbers, and the events for whoever watches."""

from collections.abc import Callable

import structlog

from proxy import __version__
from proxy.ledger.records import Turn
from proxy.reports.metrics import Metrics
from proxy.server.events import fields_of, outlet
from proxy.server.feed import Feed
from proxy.server.numbers import Numbers
from proxy.server.workers import Worker

log = structlog.get_logger("proxy")


class Watch:
    """The numbers and the events of this process."""

    def __init__(self) -> None:
        self.feed = Feed()
        self.open_calls = 0
        self.trace: Callable[[Turn], None] | None = None
        """Gets each settled turn as well, where traces are exported."""
        self._healthy: Callable[[], bool] = lambda: True
        self._failures: Callable[[], int] = lambda: 0
        self.metrics = Metrics(
            version=__version__,
            asked={
                "open_calls": lambda: self.open_calls,
                "store_healthy": lambda: self.store_healthy,
                "store_failures": lambda: self.store_failures,
                "log_lines_lost": lambda: 0 if (out := outlet()) is None else out.lost,
                "event_watchers": lambda: self.feed.watchers,
            },
        )
        self.numbers = Numbers(self.metrics)

    def join(self, worker: Worker) -> None:
        """This process is one of several: its numbers are shown with those of the others."""
        self.numbers.join(worker.slots, worker.index)

    @property
    def store_healthy(self) -> bool:
        """Whether the configured store answers."""
        return self._healthy()

    @property
    def store_failures(self) -> int:
        """Failed calls to the store since the start."""
        return self._failures()

    def looks_at_store(self, healthy: Callable[[], bool], failures: Callable[[], int]) -> None:
        """Where to ask for the store's health."""
        self._healthy, self._failures = healthy, failures

    def settled(self, turn: Turn) -> None:
        """A call has ended."""
        self.metrics.take(turn)
        if self.trace is not None:
            try:
                self.trace(turn)
            except Exception as error:  # noqa: BLE001  a foreign library: what it does must not keep a turn from the store
                self.failed("trace", error)
        if self.feed.watched:
            self.feed.publish("call", {**fields_of(turn), "at": turn.at, "window": turn.window, "paid": turn.cost})
            for line in turn.decisions:
                self.feed.publish("decision", {"session": turn.session, "turn": turn.turn, "decision": line})

    def failed(self, stage: str, error: Exception) -> None:
        """A stage of ours failed and the call went on: the class of the error only, since texts may quote content."""
        log.warning("failed_open", stage=stage, error=type(error).__name__)
        self.metrics.failed(stage)

    def store_changed(self, healthy: bool, reason: str) -> None:  # noqa: FBT001  the store's own signature
        """One event per change: the store went, or came back."""
        if healthy:
            log.info("store_recovered", reason=reason)
        else:
            log.warning("store_lost", reason=reason)
        self.feed.publish("store", {"healthy": healthy, "reason": reason})
