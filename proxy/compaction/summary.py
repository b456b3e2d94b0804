"""Whether a summary is good enough to stand for what it replaces, and how it stands in the conversation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.compaction.prompt import HEADINGS

MOST_SHARE = 0.8
"""A summary must make the history at least a fifth smaller by the same estimator (kimi-code's rule, 2026)."""

_OPENING = "Record of this conversation so far; what follows it is newer."
_TOLD = "Instructions from the system that stood here, word for word:"
_KEPT = "What the user said, word for word; later words count more than earlier ones:"
_NAMES = "Also named lately:"
_QUOTE = "The user's newest request, word for word:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a summary."""

    accepted: bool
    reason: str = ""
    """Why it was not accepted: empty | unfinished | not_smaller."""
    headings: float = 0.0
    """Share of the headings that it has; a low one is noted, no more."""
    canaries: float = 1.0
    """Share of the pinned facts (identifiers of the newest part of the span) that it still holds."""


def standing_text(summary: str, quote: str, kept: Sequence[str] = (), names: Sequence[str] = (), told: str = "") -> str:
    """The user message that stands in place of the span.

    `kept` and `names`: what the user said, and what was named lately, as far as the summary does not hold it. `told`: system
    messages of the span.
    """
    blocks = (
        (_TOLD, told),
        (_KEPT, "\n".join(f"- {words}" for words in kept)),
        (_NAMES, " ".join(names)),
        (_QUOTE, quote),
    )
    return f"{_OPENING}\n\n{summary.strip()}" + "".join(f"\n\n{mark}\n{body}" for mark, body in blocks if body)


def bare(text: str) -> str:
    """A standing text as an earlier record for the next summary: without the frame that the next one gets anew."""
    body = text.removeprefix(_OPENING).lstrip()
    for mark in (_QUOTE, _NAMES, _KEPT, _TOLD):
        body = body.rpartition(f"\n\n{mark}\n")[0] or body
    return body


def judge(
    summary: str, *, finished: bool, before_tokens: int, after_tokens: int, pinned: Sequence[str] = ()
) -> Verdict:
    """`before_tokens` and `after_tokens`: the whole history with and without the summary, by one estimator."""
    folded = summary.casefold()
    headings = sum(heading.casefold() in folded for heading in HEADINGS) / len(HEADINGS)
    canaries = sum(fact in summary for fact in pinned) / len(pinned) if pinned else 1.0
    reason = ""
    if not summary.strip():
        reason = "empty"
    elif not finished:
        reason = "unfinished"
    elif after_tokens > MOST_SHARE * before_tokens:
        reason = "not_smaller"
    return Verdict(accepted=not reason, reason=reason, headings=headings, canaries=canaries)


def pinned_facts(recent: str, identifiers: Callable[[str], Sequence[str]], most: int = 24) -> tuple[str, ...]:
    """The identifiers of the newest part of a span: what later turns are most likely to need."""
    return tuple(identifiers(recent)[:most])
