"""The small linear model of how an input grows, and the choice of the simplest one that explains what was seen.

    actual growth = factor · tokens + per_message · messages + per_result · results + reasoning_kept · reasoning

`factor` is the other tokenizer's density, `per_message` and `per_result` are envelopes that our tables do not know, and
`reasoning_kept` says what became of the last answer's reasoning: 1 when a provider keeps what the request did not carry,
−1 when it drops what the request did carry. Fits are least absolute *relative* errors (reweighted least squares), so some
wild samples do no harm, and all coefficients are clamped.

Of several models that fit, the plausible one is taken: a call or two are explained exactly by a density as well as by an
envelope, and a density of 1.8 that was read off twenty tokens would put thousands into the next estimate. So a model's score
rises with how unusual its coefficients are, and with what it would have to be that first calls hide in front; ever less the
more was seen. Where much was seen, a model must also come nearer in clearly more cases than it does not: the counts of a
provider that rounds or guesses teach nothing.
"""

from collections.abc import Sequence
from math import sqrt
from operator import mul, sub
from typing import Final

import msgspec

SMALL: Final = 50.0
"""Tokens below which an error counts as if the growth were this large: a few tokens of ten do not matter."""

Coefficients = tuple[float, float, float, float]
"""factor, per_message, per_result, reasoning_kept"""

IDENTITY: Final[Coefficients] = (1.0, 0.0, 0.0, 0.0)
_LOW: Final[Coefficients] = (0.5, -20.0, -20.0, -1.0)
_HIGH: Final[Coefficients] = (2.0, 400.0, 400.0, 1.0)
# Strength of the pull to the identity: (noise of 5 % / plausible deviation)², by coefficient.
_PULL: Final[Coefficients] = (0.03, 6e-6, 6e-6, 0.01)

_USUAL: Final[Coefficients] = (0.3, 10.0, 10.0, 1.0)
"""Deviations from the identity that are not strange: tokenizers are up to 30 % denser, envelopes are off by ten tokens."""
_USUAL_PREAMBLE: Final = 300.0
"""Tokens that a provider may put in front of everything without being strange."""
_STRANGENESS: Final = 0.01
"""Relative error that a usual deviation must save when one call was seen; half of it with two, and so on."""
_MANY: Final = 8
"""Samples from which on models with all coefficients are fitted, and the better one must be so in most cases."""
_SETTLED: Final = 0.001
"""Of a usual deviation: a fit that moves by less is done."""
_NEAR: Final = 0.005
"""Relative error below which a sample weighs no more than at it."""
_SAME: Final = 0.001
"""Relative errors that differ by less are equal."""

_CLEARLY: Final = 0.95
"""Share of the identity's score, strangeness aside, that any other model must stay below."""

_MODELS: Final[tuple[tuple[tuple[int, ...], float, int], ...]] = (
    ((0,), 0.95, 1),
    ((1,), 1.0, 1),
    ((2,), 1.0, 1),
    ((0, 1), 0.9, 3),
    ((0, 1, 2, 3), 0.85, _MANY),
)
"""Free coefficients, the share of the best score so far that this model must stay below, and the samples it needs."""


class Growth(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is new in a request since its anchor, by estimate; for a first call everything."""

    tokens: int
    messages: int = 0
    results: int = 0
    """Tool results among the new messages."""
    reasoning: int = 0
    """Reasoning tokens of the anchor's answer."""


class Observed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A growth, and what it came to by the provider's count."""

    growth: Growth
    actual: int
    number: int = 0
    """How many samples were known with it: its place among those of all replicas."""


def linear(coefficients: Coefficients, growth: Growth) -> float:
    """The model's growth, in tokens."""
    factor, per_message, per_result, kept = coefficients
    return (
        factor * growth.tokens + per_message * growth.messages + per_result * growth.results + kept * growth.reasoning
    )


def sizes_of(seen: Sequence[Observed]) -> list[float]:
    """What errors of each sample are put in relation to."""
    return [SMALL + max(one.actual, one.growth.tokens, 0) for one in seen]


def fitted(seen: Sequence[Observed], first: Sequence[Observed]) -> Coefficients:
    """The simplest model that explains what was seen; `first`: first calls, with all that they carried."""
    sizes = sizes_of(seen)
    best, errors = IDENTITY, _errors(IDENTITY, seen, sizes)
    bare = _score(errors)
    if bare < _SAME:
        return IDENTITY
    best_score = bare + _strangeness(IDENTITY, first) / len(seen)
    features = _features(seen, sizes)
    actual = [one.actual / size for one, size in zip(seen, sizes, strict=True)]
    for free, must_beat, least in _MODELS:
        if len(seen) < least or (len(free) > 1 and _score(errors) < _SAME):
            break
        found = _solution(features, actual, free)
        found_errors = _errors(found, seen, sizes)
        score = _score(found_errors)
        # What first calls hide may tell two densities apart, but is no reason to leave a model that is right.
        if best is IDENTITY and score >= _CLEARLY * bare:
            continue
        score += _strangeness(found, first) / len(seen)
        if score < must_beat * best_score and _is_mostly_better(found_errors, errors):
            best, best_score, errors = found, score, found_errors
    return best


def median(values: Sequence[float]) -> float:
    """The one in the middle, or halfway between the two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _errors(coefficients: Coefficients, seen: Sequence[Observed], sizes: Sequence[float]) -> list[float]:
    return [abs(one.actual - linear(coefficients, one.growth)) / size for one, size in zip(seen, sizes, strict=True)]


def _score(errors: Sequence[float]) -> float:
    """How far off, mostly in the middle and a little in the tail; relative."""
    ordered = sorted(errors)
    return ordered[len(ordered) // 2] + 0.25 * ordered[len(ordered) * 9 // 10]


def _strangeness(coefficients: Coefficients, first: Sequence[Observed]) -> float:
    deviations = zip(coefficients, IDENTITY, _USUAL, strict=True)
    total = sum(abs(value - usual) / spread for value, usual, spread in deviations)
    if first:
        total += abs(median([one.actual - linear(coefficients, one.growth) for one in first])) / _USUAL_PREAMBLE
    return _STRANGENESS * total


def _is_mostly_better(errors: Sequence[float], than: Sequence[float]) -> bool:
    """A sign test: one standard deviation more cases for it than chance would give. Few cases prove nothing either way."""
    count = len(errors)
    if count < _MANY:
        return True
    better = sum(one < other - _SAME for one, other in zip(errors, than, strict=True))
    worse = sum(one > other + _SAME for one, other in zip(errors, than, strict=True))
    return better - worse >= sqrt(count)


def _solution(features: Sequence[list[float]], actual: list[float], free: Sequence[int]) -> Coefficients:
    """Least absolute relative errors over the free coefficients, the others held at the identity.

    Those that nothing speaks of are not free either.
    """
    free = [index for index in free if any(features[index])]
    columns = [features[index] for index in free]
    if 0 not in free:
        actual = list(map(sub, actual, features[0]))
    found = [IDENTITY[index] for index in free]
    for _ in range(6):
        solved = zip(free, _solved(*_equations(columns, actual, found, free)), strict=True)
        before, found = found, [min(_HIGH[index], max(_LOW[index], value)) for index, value in solved]
        changes = zip(free, found, before, strict=True)
        if all(abs(now - then) < _SETTLED * _USUAL[index] for index, now, then in changes):
            break
    values = list(IDENTITY)
    for index, value in zip(free, found, strict=True):
        values[index] = value
    return values[0], values[1], values[2], values[3]


def _features(seen: Sequence[Observed], sizes: Sequence[float]) -> tuple[list[float], ...]:
    """What each coefficient is multiplied with, in parts of what was seen."""
    growths = [one.growth for one in seen]
    return (
        [growth.tokens / size for growth, size in zip(growths, sizes, strict=True)],
        [growth.messages / size for growth, size in zip(growths, sizes, strict=True)],
        [growth.results / size for growth, size in zip(growths, sizes, strict=True)],
        [growth.reasoning / size for growth, size in zip(growths, sizes, strict=True)],
    )


def _equations(
    columns: Sequence[list[float]], actual: list[float], found: Sequence[float], free: Sequence[int]
) -> tuple[list[list[float]], list[float]]:
    """Matrix and target of one step, each sample weighted by how near the last step came to it.

    Column by column, since sums over whole columns take less than half of the time of a loop over samples.
    """
    errors = actual
    for value, column in zip(found, columns, strict=True):
        errors = [error - value * feature for error, feature in zip(errors, column, strict=True)]
    near, most = _NEAR, 1.0 / _NEAR
    weights = [1.0 / error if error > near else most for error in map(abs, errors)]
    target, matrix = [], [[0.0] * len(free) for _ in free]
    for i, index in enumerate(free):
        weighted = list(map(mul, weights, columns[i]))
        target.append(sum(map(mul, weighted, actual), _PULL[index] * IDENTITY[index]))
        for j in range(i + 1):
            matrix[i][j] = matrix[j][i] = sum(map(mul, weighted, columns[j]), _PULL[index] if i == j else 0.0)
    return matrix, target


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
