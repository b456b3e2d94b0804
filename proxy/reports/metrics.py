"""The `/metrics` page: counters of this process in Prometheus' text form (of several: metric_sums).

Counting must cost a call some microseconds only, so the numbers are plain integers here and become prometheus-client's
metric families when somebody asks (metric_families). Labels are bounded: at most MOST_MODELS pairs of upstream and model,
then `other`; every other label has a closed set of values, ours.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from proxy.ledger.records import Turn
from proxy.reports.spread import BOUNDS

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_MODELS: Final = 100
OTHER: Final = ("other", "other")
OVERHEAD_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
UPSTREAM_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)

Labels = tuple[str, ...]


class Histogram:
    """Buckets, their sum and nothing else."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def take(self, value: float) -> None:
        """Count a value in the bucket whose upper bound it does not exceed."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Bounds as text and how many values lie at or below each; the last is +Inf."""
        found: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            found.append((bound, below))
        return found


class ModelCounts:
    """What is counted for one upstream and model."""

    __slots__ = (
        "calls",
        "cost",
        "cost_unpruned",
        "errors",
        "head",
        "overhead",
        "removed",
        "summaries",
        "tokens",
        "would_remove",
    )

    def __init__(self) -> None:
        self.calls: Counter[Labels] = Counter()
        self.tokens = [0, 0, 0, 0, 0]
        self.removed = 0
        self.would_remove = 0
        self.cost = self.cost_unpruned = self.summaries = 0.0
        self.errors: dict[str, Histogram] = {}
        self.overhead = Histogram(OVERHEAD_S)
        self.head = Histogram(UPSTREAM_S)


class Metrics:
    """The numbers of this process, and the page that shows them."""

    def __init__(self, *, version: str, asked: Mapping[str, Callable[[], float]] | None = None) -> None:
        """`asked`: where to ask for the values of ASKED when the page is made."""
        self.models: dict[tuple[str, str], ModelCounts] = {}
        self.decisions: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.exact_counts: Counter[str] = Counter()
        self.version = version
        self.asked = dict(asked or {})

    def take(self, turn: Turn) -> None:
        """Count one settled call, or one of our own summary calls."""
        model = self._model(turn.upstream, turn.model)
        model.calls[turn.purpose, turn.outcome] += 1
        usage, tokens = turn.usage, model.tokens
        tokens[0] += usage.input_tokens or 0
        tokens[1] += usage.cache_read_tokens or 0
        tokens[2] += usage.cache_write_tokens or 0
        tokens[3] += usage.output_tokens or 0
        tokens[4] += usage.reasoning_tokens or 0
        if turn.purpose == "summary":
            model.summaries += turn.cost or 0.0
            return
        model.removed += turn.spared_tokens
        model.would_remove += turn.would_spare_tokens
        if turn.cost is not None:
            model.cost += turn.cost
            model.cost_unpruned += turn.cost if turn.cost_unpruned is None else turn.cost_unpruned
        percent = turn.error_percent
        if percent is not None:
            errors = model.errors.get(turn.basis)
            if errors is None:
                errors = model.errors[turn.basis] = Histogram(BOUNDS)
            errors.take(percent)
        model.overhead.take(turn.overhead_ms / 1000)
        if turn.upstream_ms:
            model.head.take(turn.upstream_ms / 1000)
        if turn.new_edits:
            self.decisions.update(turn.new_edits)
        if turn.skipped:
            self.skipped[turn.skipped] += 1

    def failed(self, stage: str) -> None:
        """Count one failure of ours; `stage` names where."""
        self.failures[stage] += 1

    def counted(self, outcome: str) -> None:
        """Count one question to a provider's count endpoint."""
        self.exact_counts[outcome] += 1

    def page(self) -> bytes:
        """The exposition text."""
        return page_of(self)

    def collect(self) -> "Iterable[Metric]":
        """All families, as the library's registry asks for them."""
        # As in `page_of`.
        from proxy.reports.metric_families import families  # noqa: PLC0415

        return families(self)

    def _model(self, upstream: str, name: str) -> ModelCounts:
        key = (upstream, name)
        model = self.models.get(key)
        if model is None:
            if len(self.models) >= MOST_MODELS:
                key = OTHER
            model = self.models.setdefault(key, ModelCounts())
        return model


ASKED: Final = {
    "open_calls": "Modelled calls under way.",
    "store_healthy": "1 while the configured store answers, 0 while memory stands in for it.",
    "store_failures": "Failed calls to the store since the start.",
    "log_lines_lost": "Log lines that were not written: nobody took them, or the disk was full.",
    "event_watchers": "Open subscriptions of the event stream.",
}
"""Values that are asked for when the page is made, with their help texts."""


def page_of(collector: "Collector") -> bytes:
    """The exposition text of what this collects."""
    # Imported when a page is asked for: prometheus-client brings an HTTP server of its own, 15 ms of every start.
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)
