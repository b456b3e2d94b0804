"""What a race came to, in numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from proxy.demo.race import Bill, Step
from proxy.ledger.records import Turn


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the show; also its JSON."""

    turns: int
    refused_direct: int
    """Turns that the provider refused without the proxy (over the window)."""
    refused_pruned: int
    different_answers: int
    input_direct: int
    input_pruned: int
    """Tokens, by the provider's count, summary calls included."""
    saved_tokens: int
    saved_tokens_percent: float
    cached_direct_percent: float
    """Share of the input that was read from the prompt cache."""
    cached_pruned_percent: float
    dollars_direct: float
    dollars_pruned: float
    saved_dollars: float
    """Net of cache breaks and summary calls; negative when the proxy made it dearer."""
    saved_dollars_percent: float
    anchored_turns: int
    error_median_percent: float | None
    """Of the absolute error on anchored turns, as the two below; None when there was none."""
    error_p95_percent: float | None
    error_max_percent: float | None
    edits: dict[str, int]
    """Decided edits by kind."""
    failed_open: int
    """Calls in which a stage of the proxy failed and the original went out."""


def outcome_of(steps: Sequence[Step], rows: Sequence[Turn], direct: Bill, pruned: Bill) -> Outcome:
    """Sum a race up."""
    errors = sorted(
        abs(step.pruned.error_percent)
        for step in steps
        if step.pruned.anchored and step.pruned.error_percent is not None
    )
    edits: Counter[str] = Counter()
    for row in rows:
        edits.update(row.new_edits)
    return Outcome(
        turns=len(steps),
        refused_direct=sum(step.direct.said is None for step in steps),
        refused_pruned=sum(step.pruned.said is None for step in steps),
        different_answers=sum(not step.agree for step in steps if step.pruned.said is not None),
        input_direct=direct.input_tokens,
        input_pruned=pruned.input_tokens,
        saved_tokens=direct.input_tokens - pruned.input_tokens,
        saved_tokens_percent=_percent(direct.input_tokens - pruned.input_tokens, direct.input_tokens),
        cached_direct_percent=_percent(direct.cached_tokens, direct.input_tokens),
        cached_pruned_percent=_percent(pruned.cached_tokens, pruned.input_tokens),
        dollars_direct=round(direct.dollars, 6),
        dollars_pruned=round(pruned.dollars, 6),
        saved_dollars=round(direct.dollars - pruned.dollars, 6),
        saved_dollars_percent=_percent(direct.dollars - pruned.dollars, direct.dollars),
        anchored_turns=len(errors),
        error_median_percent=rank(errors, 0.5),
        error_p95_percent=rank(errors, 0.95),
        error_max_percent=rank(errors, 1.0),
        edits=dict(edits.most_common()),
        failed_open=sum(bool(row.failed_open) for row in rows),
    )


def rank(ordered: Sequence[float], share: float) -> float | None:
    """The value below which this share of the ordered values lies (nearest rank); None when there is none."""
    if not ordered:
        return None
    return round(ordered[max(0, -int(-share * len(ordered) // 1) - 1)], 3)


def as_json(step: Step) -> dict[str, Any]:
    """One turn for `--json`."""
    pruned = step.pruned
    error = pruned.error_percent
    return {
        "turn": step.number,
        "status": pruned.status,
        "input_direct": step.direct.input_tokens or None,
        "input_pruned": pruned.input_tokens or None,
        "estimated": pruned.estimated,
        "basis": "anchored" if pruned.anchored else "estimated",
        "error_percent": None if error is None else round(error, 3),
        "cached_direct": step.direct.cached_tokens,
        "cached_pruned": pruned.cached_tokens,
        "removed_tokens": pruned.removed_tokens,
        "compacted": pruned.compacted,
    }


def _percent(part: float, whole: float) -> float:
    return round(100.0 * part / whole, 2) if whole else 0.0
