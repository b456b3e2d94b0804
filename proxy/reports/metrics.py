"""The `/metrics` page: counters of this process in Prometheus' text form (of several: metric_sums).

Counting must cost a call some microseconds only, so the numbers are plain integers here and become prometheus-client's
metric families when somebody asks (a collector in the library's own registry). Labels are bounded: at most
MOST_MODELS pairs of upstream and model, then `other`; every other label has a closed set of values, ours.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from proxy.ledger.records import Turn
from proxy.reports.spread import BOUNDS

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_MODELS: Final = 100
OTHER: Final = ("other", "other")
OVERHEAD_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
UPSTREAM_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_PREFIX: Final = "pruning_proxy_"

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


class _Model:
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


_TOKENS: Final = ("input", "cache_read", "cache_write", "output", "reasoning")


class Metrics:
    """The numbers of this process, and the page that shows them."""

    def __init__(self, *, version: str, asked: Mapping[str, Callable[[], float]] | None = None) -> None:
        """`asked`: where to ask for the values of ASKED when the page is made."""
        self._models: dict[tuple[str, str], _Model] = {}
        self._decisions: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self._version = version
        self._asked = dict(asked or {})
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

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
        model.removed += turn.removed_tokens
        model.would_remove += turn.would_remove_tokens
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
            self._decisions.update(turn.new_edits)
        if turn.skipped:
            self._skipped[turn.skipped] += 1

    def failed(self, stage: str) -> None:
        """Count one failure of ours; `stage` names where."""
        self._failed[stage] += 1

    def counted(self, outcome: str) -> None:
        """Count one question to a provider's count endpoint."""
        self._counted[outcome] += 1

    def page(self) -> bytes:
        """The exposition text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All families; called by the registry."""
        models = sorted(self._models.items())
        yield from _call_families(models)
        yield from _money_families(models)
        yield from _histogram_families(models)
        yield _counter("decisions", "Edits decided, by kind.", ("kind",), _one(self._decisions))
        yield _counter("skipped", "Calls at which nothing was pruned, by reason.", ("reason",), _one(self._skipped))
        yield _counter(
            "failed_open",
            "Failures of the proxy's own that calls went on without, by stage.",
            ("stage",),
            _one(self._failed),
        )
        yield _counter("exact_counts", "Counts asked of providers, by outcome.", ("outcome",), _one(self._counted))
        for name, value in self._asked.items():
            family = CounterMetricFamily if name in _RISING else GaugeMetricFamily
            asked = family(_PREFIX + name, ASKED[name])
            asked.add_metric((), value())
            yield asked
        build = GaugeMetricFamily(_PREFIX + "build_info", "Always 1; the version is its label.", labels=("version",))
        build.add_metric((self._version,), 1)
        yield build

    def _model(self, upstream: str, name: str) -> _Model:
        key = (upstream, name)
        model = self._models.get(key)
        if model is None:
            if len(self._models) >= MOST_MODELS:
                key = OTHER
            model = self._models.setdefault(key, _Model())
        return model


ASKED: Final = {
    "open_calls": "Modelled calls under way.",
    "store_healthy": "1 while the configured store answers, 0 while memory stands in for it.",
    "store_failures": "Failed calls to the store since the start.",
    "event_watchers": "Open subscriptions of the event stream.",
}
"""Values that are asked for when the page is made, with their help texts."""
_RISING: Final = frozenset({"store_failures"})
"""Those of them that only rise."""

_Models = Sequence[tuple[tuple[str, str], _Model]]
_PAIR: Final = ("upstream", "model")


def _call_families(models: _Models) -> Iterator[Metric]:
    yield _counter(
        "calls",
        "Modelled calls by purpose and outcome; purpose summary is the proxy's own.",
        (*_PAIR, "purpose", "outcome"),
        (((*pair, *kind), count) for pair, model in models for kind, count in sorted(model.calls.items())),
    )
    yield _counter(
        "tokens",
        "Tokens as providers reported them. cache_read and cache_write are parts of input, reasoning of output.",
        (*_PAIR, "type"),
        (((*pair, kind), model.tokens[at]) for pair, model in models for at, kind in enumerate(_TOKENS)),
    )
    yield _counter(
        "removed_tokens",
        "Estimated tokens that stood in clients' histories and were not sent, net of placeholders.",
        _PAIR,
        ((pair, model.removed) for pair, model in models),
    )
    yield _counter(
        "would_remove_tokens",
        "Estimated tokens that would not have been sent, of calls that were only observed.",
        _PAIR,
        ((pair, model.would_remove) for pair, model in models),
    )


def _money_families(models: _Models) -> Iterator[Metric]:
    yield _counter(
        "cost_dollars",
        "US dollars for clients' calls, by the price table.",
        _PAIR,
        ((pair, model.cost) for pair, model in models),
    )
    yield _counter(
        "cost_unpruned_dollars",
        "US dollars that the same calls would have cost without the proxy.",
        _PAIR,
        ((pair, model.cost_unpruned) for pair, model in models),
    )
    yield _counter(
        "summary_cost_dollars",
        "US dollars for the proxy's own summary calls.",
        _PAIR,
        ((pair, model.summaries) for pair, model in models),
    )
    saved = GaugeMetricFamily(
        _PREFIX + "saved_dollars",
        "US dollars saved since the start, net of cache breaks and summaries; falls when a break costs.",
        labels=_PAIR,
    )
    for pair, model in models:
        saved.add_metric(pair, model.cost_unpruned - model.cost - model.summaries)
    yield saved


def _histogram_families(models: _Models) -> Iterator[Metric]:
    errors = HistogramMetricFamily(
        _PREFIX + "estimate_error_percent",
        "Estimated minus reported input tokens, in percent of the reported; below 0 the estimate was too low.",
        labels=(*_PAIR, "basis"),
    )
    overhead = HistogramMetricFamily(
        _PREFIX + "overhead_seconds", "Time of the proxy's own before a request went out.", labels=_PAIR
    )
    head = HistogramMetricFamily(
        _PREFIX + "upstream_seconds", "From sending a request to the head of the upstream's answer.", labels=_PAIR
    )
    for pair, model in models:
        for basis, histogram in sorted(model.errors.items()):
            errors.add_metric((*pair, basis), histogram.cumulative(), histogram.total)
        overhead.add_metric(pair, model.overhead.cumulative(), model.overhead.total)
        head.add_metric(pair, model.head.cumulative(), model.head.total)
    yield from (errors, overhead, head)


def _counter(name: str, text: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=labels)
    for names, value in values:
        family.add_metric(names, value)
    return family


def _one(counts: Counter[str]) -> Iterator[tuple[Labels, float]]:
    return (((name,), count) for name, count in sorted(counts.items()))
