"""What the actual counts teach about the estimates, for one upstream, model and encoding.

Learned from *growth*: what an input grew by since its anchor, beyond the answer that was sent back, against what the new
messages were estimated at. (The whole would teach nothing, since most of it is known.) The model is linear and small, see
`fit`. First calls have no anchor; they teach `preamble`, what a provider puts in front that no request shows.

Replicas learn together: each sample has a number, and what two of them know is the newest of both (`merged`). Merging again,
in whichever order, changes nothing, so a replica whose write was overtaken by another's makes it good with its next one.

Not learned from: cut streams, impossible usage, conversations that the server edits, media, and calls with new edits; nor
from a provider most of whose counts cannot be right.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from proxy.tokens.fit import IDENTITY, SMALL, Coefficients, Growth, Observed, fitted, linear, median, sizes_of

KEPT: Final = 48
"""Samples that a fit looks at: some sessions' worth, so that a provider's change is followed within a day."""
_KEPT_FIRST: Final = 24
_BASE_RANGE: Final = (0.8, 1.4)
"""Expected growth over estimate before anything is learned: recorded p5 and p95 of strangers' tokenizers."""
_FIRST_RANGE: Final = (0.8, 1.6)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One settled call."""

    growth: Growth
    actual: int
    """Anchored: reported input − last input − last output resent. Else the whole reported input."""
    anchored: bool
    turns_dropped: float | None = None
    """How much of the reasoning whose turn had ended the provider has taken out, 0 to 1; None where the call does not tell."""
    usable: bool = True
    """False for what must not be learned from, see `is_usable`."""


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What is known by now; stored under `learned_name`."""

    coefficients: Coefficients = IDENTITY
    range: tuple[float, float] = _BASE_RANGE
    """Actual over estimated growth: 5 % lie below, 5 % above."""
    preamble: float = 0.0
    first_factor: float = 0.0
    """Actual over estimated for first calls, where that fits better than factor and preamble; 0: it does not."""
    first_range: tuple[float, float] = _FIRST_RANGE
    samples: int = 0
    turns_dropped: float | None = None
    """Share of earlier turns' reasoning that the provider takes out by itself; None: not known yet."""
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


@lru_cache(maxsize=1024)
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
    tokens = max(0.0, linear(state.coefficients, growth))
    return _ranged(tokens, state.range)


def predict_first(state: Learned, growth: Growth) -> Predicted:
    """A pure estimate of a whole request, corrected; with what the provider hides in front."""
    return _ranged(_first(state, growth), state.first_range)


def first_tokens(state: Learned, growth: Growth) -> int:
    """The tokens of `predict_first` alone."""
    return round(_first(state, growth))


def update(state: Learned, sample: Sample) -> Learned:
    """The state after one more call."""
    if sample.turns_dropped is not None:
        known, share = state.turns_dropped, sample.turns_dropped
        share = share if known is None else (known + share) / 2
        return msgspec.structs.replace(state, samples=state.samples + 1, turns_dropped=share)
    if not sample.usable or sample.growth.tokens <= 0:
        return state
    if not _is_plausible(sample):
        state = msgspec.structs.replace(state, rejected=state.rejected + 1)
        return state if _is_credible(state) else msgspec.structs.replace(state, coefficients=IDENTITY)
    count = state.samples + 1
    seen = Observed(sample.growth, sample.actual, count)
    if not sample.anchored:
        first = (*state.recent_first[1 - _KEPT_FIRST :], seen)
        state = msgspec.structs.replace(state, samples=count, recent_first=first)
        return _with_first_fit(state) if _is_due(len(first), count, _KEPT_FIRST) else state
    recent = (*state.recent[1 - KEPT :], seen)
    state = msgspec.structs.replace(state, samples=count, recent=recent)
    return _with_fit(state) if _is_due(len(recent), count, KEPT) else state


def merged(ours: Learned, stored: Learned, new: int) -> Learned:
    """What we know together with what is stored. `new`: how many of our samples were never written."""
    recent = _newest(stored.recent, ours.recent, KEPT)
    first = _newest(stored.recent_first, ours.recent_first, _KEPT_FIRST)
    samples = max(ours.samples, stored.samples + new)
    dropped = stored.turns_dropped if ours.turns_dropped is None else ours.turns_dropped
    state = msgspec.structs.replace(
        ours, samples=samples, rejected=max(ours.rejected, stored.rejected), turns_dropped=dropped
    )
    if recent == ours.recent and first == ours.recent_first:
        return state
    state = msgspec.structs.replace(state, recent=recent, recent_first=first)
    state = _with_fit(state) if recent else state
    return _with_first_fit(state) if first else state


def _newest(some: Sequence[Observed], others: Sequence[Observed], most: int) -> tuple[Observed, ...]:
    return tuple(sorted(dict.fromkeys((*some, *others)), key=lambda one: one.number)[-most:])


def _is_due(kept: int, count: int, most: int) -> bool:
    """A fit takes up to a millisecond: each time while there is little, later for every 8th and 32nd sample."""
    return kept <= 16 or count % (8 if kept < most else 32) == 0


def _is_credible(state: Learned) -> bool:
    """Whether most counts can be right. Of running totals only some look so, and what those teach is wrong too."""
    return state.rejected <= state.samples


def _is_plausible(sample: Sample) -> bool:
    tokens, actual = sample.growth.tokens, sample.actual
    if sample.anchored:
        slack = 400 * max(1, sample.growth.messages) + sample.growth.reasoning
        return tokens / 4 - slack <= actual <= tokens * 4 + slack
    return actual > 0 and actual * 4 >= tokens


def _ranged(tokens: float, span: tuple[float, float]) -> Predicted:
    low, high = ((tokens + SMALL) * edge - SMALL for edge in span)
    return Predicted(tokens=round(tokens), low=max(0, round(low)), high=round(high))


def _with_fit(state: Learned) -> Learned:
    seen = state.recent
    best = fitted(seen, state.recent_first) if _is_credible(state) else IDENTITY
    span = _span(seen, [linear(best, one.growth) for one in seen], _BASE_RANGE)
    return msgspec.structs.replace(state, coefficients=best, range=span)


def _with_first_fit(state: Learned) -> Learned:
    seen = state.recent_first
    grown = [linear(state.coefficients, one.growth) for one in seen]
    ratios = [one.actual / one.growth.tokens for one in seen]
    preamble = median([one.actual - tokens for one, tokens in zip(seen, grown, strict=True)])
    factor = min(2.0, max(0.5, median(ratios)))
    # As `_first` has it under the one and under the other, for all that is kept.
    constant = [max(0.0, tokens + preamble) for tokens in grown]
    denser = [factor * one.growth.tokens for one in seen]
    sizes = sizes_of(seen)
    # A single first call cannot tell a denser tokenizer from a hidden preamble; a ratio errs less for other sizes.
    alone = len(seen) == 1 and not state.recent and 0.5 <= ratios[0] <= 2.0
    if alone or _error(denser, seen, sizes) < _error(constant, seen, sizes):
        span = _span(seen, denser, _FIRST_RANGE)
        return msgspec.structs.replace(state, preamble=0.0, first_factor=factor, first_range=span)
    span = _span(seen, constant, _FIRST_RANGE)
    return msgspec.structs.replace(state, preamble=preamble, first_factor=0.0, first_range=span)


def _error(predicted: Sequence[float], seen: Sequence[Observed], sizes: Sequence[float]) -> float:
    """Relative, in the middle."""
    return median([abs(one.actual - tokens) / size for tokens, one, size in zip(predicted, seen, sizes, strict=True)])


def _first(state: Learned, growth: Growth) -> float:
    if state.first_factor:
        return state.first_factor * growth.tokens
    return max(0.0, linear(state.coefficients, growth) + state.preamble)


def _span(seen: Sequence[Observed], predicted: Sequence[float], base: tuple[float, float]) -> tuple[float, float]:
    """5 % and 95 % quantiles of actual over predicted; blended with the base range while there is little."""
    pairs = zip(seen, predicted, strict=True)
    ratios = sorted([(one.actual + SMALL) / (max(0.0, tokens) + SMALL) for one, tokens in pairs])
    low, high = (min(4.0, max(0.25, ratios[at])) for at in (len(ratios) // 20, -1 - len(ratios) // 20))
    trust = min(1.0, len(ratios) / 12)
    return (
        round(trust * low + (1 - trust) * min(low, base[0]), 4),
        round(trust * high + (1 - trust) * max(high, base[1]), 4),
    )
