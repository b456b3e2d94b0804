"""Numbers of several processes as one page: what each has counted, in bytes, and the sums of it.

Sums are made of what a page shows, not of how it is counted: samples of one name and the same labels are added. Of the
gauges, those that tell of the moment count for living processes only, and where a sum would say nothing (is the store
healthy?) the least counts.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

_LEAST: Final = frozenset({"pruning_proxy_store_healthy", "pruning_proxy_build_info"})
"""One unhealthy worker is worth knowing; the other one is 1 everywhere."""
_OF_THE_MOMENT: Final = _LEAST | {"pruning_proxy_open_calls", "pruning_proxy_event_watchers"}
"""What ends with the process."""

Labels = tuple[tuple[str, str], ...]


class Family(msgspec.Struct, frozen=True, array_like=True):
    """One metric of one process."""

    name: str
    text: str
    kind: str
    samples: tuple[tuple[str, Labels, float], ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Family, ...])


def snapshot(collectors: "Iterable[Collector]") -> bytes:
    """All that these have counted."""
    families = (family for collector in collectors for family in collector.collect())
    return _encoder.encode(tuple(_family(family) for family in families))


def _family(metric: "Metric") -> Family:
    samples = ((sample.name, tuple(sample.labels.items()), float(sample.value)) for sample in metric.samples)
    return Family(metric.name, metric.documentation, metric.type, tuple(samples))


def lasting(taken: bytes) -> bytes:
    """What of a process's numbers its successor goes on from: all but what tells of the moment."""
    return _encoder.encode(tuple(family for family in _read(taken) if family.name not in _OF_THE_MOMENT))


class Summed:
    """The sums over snapshots, as metric families of the library. What is no snapshot counts for nothing."""

    def __init__(self, taken: Iterable[bytes]) -> None:
        self._families = [family for one in taken for family in _read(one)]

    def collect(self) -> "Iterable[Metric]":
        """In the order in which families and samples come up first."""
        # As in `metrics.page_of`.
        from prometheus_client.core import Metric, Sample  # noqa: PLC0415

        sums: dict[str, tuple[Family, dict[tuple[str, Labels], float]]] = {}
        for family in self._families:
            _, values = sums.setdefault(family.name, (family, {}))
            for name, labels, value in family.samples:
                known = values.get((name, labels))
                if known is None:
                    values[name, labels] = value
                else:
                    values[name, labels] = min(known, value) if family.name in _LEAST else known + value
        for family, values in sums.values():
            metric = Metric(family.name, family.text, family.kind)
            metric.samples = [Sample(name, dict(labels), value) for (name, labels), value in values.items()]
            yield metric


def _read(taken: bytes) -> tuple[Family, ...]:
    try:
        return _decoder.decode(taken) if taken else ()
    except msgspec.MsgspecError:
        return ()
