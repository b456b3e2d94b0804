"""What many signed errors come to: their middle, their tail, and their shape."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

BOUNDS: Final = (-50.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Upper bounds of the histogram's buckets, in percent; below 0 the estimate was too low."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Signed errors in percent. Of an empty sample everything but `calls` is None."""

    calls: int
    """Size of the sample."""
    median: float | None
    """Of the absolute errors, as p95 and max."""
    p95: float | None
    max: float | None
    bias: float | None
    """Mean of the signed errors: above 0 the estimates are too high."""
    histogram: tuple[int, ...]
    """Errors in each bucket of BOUNDS, and in a last one above them."""


def spread(errors: Sequence[float]) -> Spread:
    """What signed errors, in percent, come to."""
    counts = [0] * (len(BOUNDS) + 1)
    for error in errors:
        counts[bisect_left(BOUNDS, error)] += 1
    sizes = sorted(abs(error) for error in errors)
    return Spread(
        calls=len(errors),
        median=_at(sizes, 0.5),
        p95=_at(sizes, 0.95),
        max=_at(sizes, 1.0),
        bias=round(sum(errors) / len(errors), 3) if errors else None,
        histogram=tuple(counts),
    )


def _at(ordered: Sequence[float], share: float) -> float | None:
    """The quantile, between two values by their distance."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (ordered[high] - ordered[low]) * (place - low), 3)
