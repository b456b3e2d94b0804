"""The counters of `metrics` as metric families of prometheus-client. Imported when the page is first asked for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from proxy.reports.metrics import ASKED, Labels, Metrics, ModelCounts

_PREFIX: Final = "pruning_proxy_"
_TOKENS: Final = ("input", "cache_read", "cache_write", "output", "reasoning")
_RISING: Final = frozenset({"store_failures", "log_lines_lost"})
"""Those of ASKED that only rise."""

_Models = Sequence[tuple[tuple[str, str], ModelCounts]]
_PAIR: Final = ("upstream", "model")


def families(metrics: Metrics) -> Iterator[Metric]:
    """All families of a process's counters."""
    models = sorted(metrics.models.items())
    yield from _call_families(models)
    yield from _money_families(models)
    yield from _histogram_families(models)
    yield _counter("decisions", "Edits decided, by kind.", ("kind",), _one(metrics.decisions))
    yield _counter("skipped", "Calls at which nothing was pruned, by reason.", ("reason",), _one(metrics.skipped))
    yield _counter(
        "failed_open",
        "Failures of the proxy's own that calls went on without, by stage.",
        ("stage",),
        _one(metrics.failures),
    )
    yield _counter("exact_counts", "Counts asked of providers, by outcome.", ("outcome",), _one(metrics.exact_counts))
    for name, value in metrics.asked.items():
        family = CounterMetricFamily if name in _RISING else GaugeMetricFamily
        asked = family(_PREFIX + name, ASKED[name])
        asked.add_metric((), value())
        yield asked
    build = GaugeMetricFamily(_PREFIX + "build_info", "Always 1; the version is its label.", labels=("version",))
    build.add_metric((metrics.version,), 1)
    yield build


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
        "Estimated tokens of clients' histories that were not sent, net of placeholders, in calls that were not refused.",
        _PAIR,
        ((pair, model.removed) for pair, model in models),
    )
    yield _counter(
        "would_remove_tokens",
        "The same of calls that were only observed: estimated tokens that would not have been sent.",
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
