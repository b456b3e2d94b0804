"""What the actual counts teach about the estimates, for one upstream, model and encoding.

Learned from *growth*: what an input grew by since its anchor, beyond the answer that was sent back, against what the new
messages were estimated at. (The whole would teach nothing, since most of it is known.) The model is linear and small:

    actual growth = factor · tokens + per_message · messages + per_result · results + reasoning_kept · reasoning

`factor` is the other tokenizer's density, `per_message` and `per_result` are envelopes that our tables do not know, and
`reasoning_kept` says what became of the last answer's reasoning: 1 when a provider keeps what the request did not carry,
−1 when it drops what the request did carry. A simpler model is taken unless the larger one is clearly better on what was
seen: first none, then the factor alone. Fits are least absolute *relative* errors (reweighted least squares), so some
wild samples do no harm, and all coefficients are clamped. First calls have no anchor; they teach `preamble`, what a
provider puts in front that no request shows.

Not learned from: cut streams, impossible usage, conversations that the server edits, media, and calls with new edits.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

KEPT: Final = 48
"""Samples that a fit looks at: some sessions' worth, so that a provider's change is followed within a day."""
_KEPT_FIRST: Final = 24
_LEAST_LINEAR: Final = 8
_SMALL: Final = 50.0
"""Tokens below which an error counts as if the growth were this large: a few tokens of ten do not matter."""
_BASE_RANGE: Final = (0.8, 1.4)
"""Expected growth over estimate before anything is learned: recorded p5 and p95 of strangers' tokenizers."""
_FIRST_RANGE: Final = (0.8, 1.6)

Coefficients = tuple[float, float, float, float]
"""factor, per_message, per_result, reasoning_kept"""

_IDENTITY: Final[Coefficients] = (1.0, 0.0, 0.0, 0.0)
_LOW: Final[Coefficients] = (0.5, -20.0, -20.0, -1.0)
_HIGH: Final[Coefficients] = (2.0, 400.0, 400.0, 1.0)
# Strength of the pull to the identity: (noise of 5 % / plausible deviation)², by coefficient.
_PULL: Final[Coefficients] = (0.03, 6e-6, 6e-6, 0.01)


class Growth(msgspec.Struct, frozen=True, array_like=True):
    """What is new in a request since its anchor, by estimate; for a first call everything."""

    tokens: int
    messages: int = 0
    results: int = 0
    """Tool results among the new messages."""
    reasoning: int = 0
    """Reasoning tokens of the anchor's answer."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One settled call."""

    growth: Growth
    actual: int
    """Anchored: reported input − last input − last output resent. Else the whole reported input."""
    anchored: bool
    usable: bool = True
    """False for what must not be learned from, see `is_usable`."""


class Observed(msgspec.Struct, frozen=True, array_like=True):
    """A sample that was taken in."""

    growth: Growth
    actual: int


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What is known by now; stored under `learned_name`."""

    coefficients: Coefficients = _IDENTITY
    range: tuple[float, float] = _BASE_RANGE
    """Actual over estimated growth: 5 % lie below, 5 % above."""
    preamble: float = 0.0
    first_factor: float = 0.0
    """Actual over estimated for first calls, where that fits better than factor and preamble; 0: it does not."""
    first_range: tuple[float, float] = _FIRST_RANGE
    samples: int = 0
    rejected: int = 0
    """Samples that were not taken in because they cannot be right."""
    recent: tuple[Observed, ...] = ()
    recent_first: tuple[Observed, ...] = ()

    @property
    def factor(self) -> float:
        """Actual tokens for one estimated token of text: for corrections of system, tools and edits."""
        return self.coefficients[0]


NOTHING_LEARNED: Final = Learned()


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """A corrected estimate and where nine of ten actual counts are expected."""

    tokens: int
    low: int
    high: int


def learned_name(upstream: str, model: str, encoding: str) -> str:
    """Key of the stored state."""
    return f"estimate/{upstream}/{model}/{encoding}"


def encode(state: Learned) -> bytes:
    """The stored form."""
    return msgspec.msgpack.encode(state)


def decode(stored: bytes | None) -> Learned:
    """The stored state; nothing learned when there is none or it is of another version."""
    if stored is None:
        return NOTHING_LEARNED
    try:
        return msgspec.msgpack.decode(stored, type=Learned)
    except msgspec.DecodeError:
        return NOTHING_LEARNED


def is_usable(*, complete: bool, possible: bool, server_edits: bool, media: bool, edited: bool) -> bool:
    """Whether a call may teach.

    `complete`: the answer ended by itself. `possible`: see `usage.is_possible`, also of the anchor's usage. `media`: among
    the new messages. `edited`: edits newer than the anchor stand in the request.
    """
    return complete and possible and not (server_edits or media or edited)


def predict(state: Learned, growth: Growth) -> Predicted:
    """The anchored estimate's `new`, corrected."""
    tokens = max(0.0, _linear(state.coefficients, growth))
    return _ranged(tokens, state.range)


def predict_first(state: Learned, growth: Growth) -> Predicted:
    """A pure estimate of a whole request, corrected; with what the provider hides in front."""
    return _ranged(_first(state, growth), state.first_range)


def update(state: Learned, sample: Sample) -> Learned:
    """The state after one more call."""
    if not sample.usable or sample.growth.tokens <= 0:
        return state
    if not _is_plausible(sample):
        return msgspec.structs.replace(state, rejected=state.rejected + 1)
    seen = Observed(sample.growth, sample.actual)
    count = state.samples + 1
    if not sample.anchored:
        first = (*state.recent_first, seen)[-_KEPT_FIRST:]
        state = msgspec.structs.replace(state, samples=count, recent_first=first)
        return _with_first_fit(state) if _is_due(len(first), count, _KEPT_FIRST) else state
    recent = (*state.recent, seen)[-KEPT:]
    state = msgspec.structs.replace(state, samples=count, recent=recent)
    return _with_fit(state) if _is_due(len(recent), count, KEPT) else state


def _is_due(kept: int, count: int, most: int) -> bool:
    """A fit takes up to two milliseconds: each time while there is little, later for every 8th and 32nd sample."""
    return kept <= 16 or count % (8 if kept < most else 32) == 0


def _is_plausible(sample: Sample) -> bool:
    tokens, actual = sample.growth.tokens, sample.actual
    if sample.anchored:
        slack = 400 * max(1, sample.growth.messages) + sample.growth.reasoning
        return tokens / 4 - slack <= actual <= tokens * 4 + slack
    return actual > 0 and actual * 4 >= tokens


def _linear(coefficients: Coefficients, growth: Growth) -> float:
    factor, per_message, per_result, kept = coefficients
    return (
        factor * growth.tokens + per_message * growth.messages + per_result * growth.results + kept * growth.reasoning
    )


def _ranged(tokens: float, span: tuple[float, float]) -> Predicted:
    low, high = ((tokens + _SMALL) * edge - _SMALL for edge in span)
    return Predicted(tokens=round(tokens), low=max(0, round(low)), high=round(high))


def _with_fit(state: Learned) -> Learned:
    seen = state.recent
    candidates: list[tuple[Coefficients, float]] = [(_IDENTITY, 1.0)]
    candidates.append((_fitted(seen, (0,)), 0.95))
    if len(seen) >= _LEAST_LINEAR:
        candidates.append((_fitted(seen, (0, 1)), 0.9))
        candidates.append((_fitted(seen, (0, 1, 2, 3)), 0.85))
    best, best_score = candidates[0][0], _score(candidates[0][0], seen)
    for coefficients, must_beat in candidates[1:]:
        score = _score(coefficients, seen)
        if score < must_beat * best_score:
            best, best_score = coefficients, score
    span = _span(seen, lambda growth: _linear(best, growth), _BASE_RANGE)
    return msgspec.structs.replace(state, coefficients=best, range=span)


def _with_first_fit(state: Learned) -> Learned:
    seen = state.recent_first
    rests = [one.actual - _linear(state.coefficients, one.growth) for one in seen]
    ratios = [one.actual / one.growth.tokens for one in seen]
    constant = msgspec.structs.replace(state, preamble=_median(rests), first_factor=0.0)
    factor = msgspec.structs.replace(state, preamble=0.0, first_factor=min(2.0, max(0.5, _median(ratios))))
    chosen = min(
        (constant, factor),
        key=lambda one: _median([abs(_relative(_first(one, each.growth), each)) for each in seen]),
    )
    # A single first call cannot tell a denser tokenizer from a hidden preamble; a ratio errs less for other sizes.
    if len(seen) == 1 and not state.recent and 0.5 <= ratios[0] <= 2.0:
        chosen = factor
    span = _span(seen, lambda growth: _first(chosen, growth), _FIRST_RANGE)
    return msgspec.structs.replace(chosen, first_range=span)


def _first(state: Learned, growth: Growth) -> float:
    if state.first_factor:
        return state.first_factor * growth.tokens
    return max(0.0, _linear(state.coefficients, growth) + state.preamble)


def _relative(predicted: float, one: Observed) -> float:
    return (one.actual - predicted) / (_SMALL + max(one.actual, one.growth.tokens, 0))


def _score(coefficients: Coefficients, seen: Sequence[Observed]) -> float:
    """How far off, mostly in the middle and a little in the tail; relative."""
    errors = sorted(abs(_relative(_linear(coefficients, one.growth), one)) for one in seen)
    return errors[len(errors) // 2] + 0.25 * errors[len(errors) * 9 // 10]


def _span(
    seen: Sequence[Observed], predicted: Callable[[Growth], float], base: tuple[float, float]
) -> tuple[float, float]:
    """5 % and 95 % quantiles of actual over predicted; blended with the base range while there is little."""
    ratios = sorted((one.actual + _SMALL) / (max(0.0, predicted(one.growth)) + _SMALL) for one in seen)
    low, high = (min(4.0, max(0.25, ratios[at])) for at in (len(ratios) // 20, -1 - len(ratios) // 20))
    trust = min(1.0, len(ratios) / 12)
    return (
        round(trust * low + (1 - trust) * min(low, base[0]), 4),
        round(trust * high + (1 - trust) * max(high, base[1]), 4),
    )


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _fitted(seen: Sequence[Observed], free: Sequence[int]) -> Coefficients:
    """Least absolute relative errors over the free coefficients, the others held at the identity."""
    rows = [_row(one) for one in seen]
    found = list(_IDENTITY)
    for _ in range(6):
        size = len(free)
        matrix = [[_PULL[free[i]] if i == j else 0.0 for j in range(size)] for i in range(size)]
        target = [_PULL[index] * _IDENTITY[index] for index in free]
        for features, actual in rows:
            error = actual - sum(found[index] * features[index] for index in free)
            weight = 1.0 / max(abs(error), 0.005)
            for i, first in enumerate(free):
                scaled = weight * features[first]
                target[i] += scaled * actual
                for j, second in enumerate(free):
                    matrix[i][j] += scaled * features[second]
        for index, value in zip(free, _solved(matrix, target), strict=True):
            found[index] = min(_HIGH[index], max(_LOW[index], value))
    return found[0], found[1], found[2], found[3]


def _row(one: Observed) -> tuple[Coefficients, float]:
    growth = one.growth
    size = _SMALL + max(one.actual, growth.tokens, 0)
    features = (growth.tokens / size, growth.messages / size, growth.results / size, growth.reasoning / size)
    return features, one.actual / size


def _solved(matrix: list[list[float]], target: list[float]) -> list[float]:
    """Gaussian elimination; the matrix is symmetric and positive because of the pull."""
    size = len(target)
    for pivot in range(size):
        for row in range(pivot + 1, size):
            share = matrix[row][pivot] / matrix[pivot][pivot]
            for column in range(pivot, size):
                matrix[row][column] -= share * matrix[pivot][column]
            target[row] -= share * target[pivot]
    for pivot in reversed(range(size)):
        target[pivot] -= sum(matrix[pivot][column] * target[column] for column in range(pivot + 1, size))
        target[pivot] /= matrix[pivot][pivot]
    return target
