"""When a conversation is compacted: the `[compact]` section as a value, and the one question it answers."""

import math
from dataclasses import dataclass
from typing import Literal

from proxy.tokens.context import ContextSize

Stage = Literal["none", "background", "now"]
"""background: begin a summary, to be used when the limit is reached. now: the request does not fit without one."""

MOST_TAIL_TOKENS = 15_000
"""The kept tail never needs more: opencode's clamp (2026-08)."""
NO_MODEL = "none"
"""As `model`: no summary call is ever made, a record made without a model stands instead."""

_TURNS_AHEAD = 2
"""A summary is begun so many turns like the last one before the limit."""
_FIRST_SHARE = 1 / 2
"""Of the limit: before that, none is begun."""
_LATEST_SHARE = 1 / 3
"""Of the way from there to the limit: so far it may be put off."""
_SUMMARY_SHARE = 1 / 8
_LEAST_SUMMARY_TOKENS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPolicy:
    """What the user wants of compaction."""

    trigger: Literal["window", "share", "off"] = "window"
    """window: when input and answer no longer fit. share: at `share` of what is usable, by choice. off: never."""
    share: float = 1.0
    background_share: float = 0.85
    """The summary is begun at this part of the limit, so that it is ready when the limit is reached."""
    model: str = ""
    """Writes the summaries; empty: the conversation's own model; "none": no model at all, but a record of its facts."""
    keep_recent_messages: int = 2
    tail_share: float = 0.25
    """Part of the usable window that the newest messages may keep, at most MOST_TAIL_TOKENS."""
    max_summary_tokens: int = 4_000
    early: bool = False
    """Put old steps into a short record, made without a model, where the price formula says that it pays."""
    early_tail_tokens: int = 8_000
    """Of the newest messages, which no such record touches; at most a fifth of the window."""


PRESETS = {"gentle": CompactPolicy(), "bold": CompactPolicy(early=True)}
"""Profile → what it sets."""


def summary_tokens(policy: CompactPolicy, usable: int) -> int:
    """How long a summary may be: in a small window less than what is configured."""
    return min(policy.max_summary_tokens, max(_LEAST_SUMMARY_TOKENS, int(usable * _SUMMARY_SHARE)))


def limit_tokens(usable: int | None, policy: CompactPolicy) -> int | None:
    """Input tokens beyond which the conversation is compacted; None: never (off, or the window is unknown).

    `usable`: see tokens.context.usable_tokens.
    """
    if usable is None or policy.trigger == "off":
        return None
    return int(usable * policy.share) if policy.trigger == "share" else usable


def stage_of(
    context: ContextSize, policy: CompactPolicy, *, doubt: float = 0.0, turn_tokens: float = math.inf
) -> Stage:
    """What the window demands.

    `doubt`: share by which a pure estimate may be too low, for tokenizers we do not know. `turn_tokens`: what stands in the
    request from the last answer on. More than that no turn has added, however much of the history its client has changed.
    """
    limit, size = limit_tokens(context.usable, policy), _size(context, doubt)
    if limit is None or size <= _FIRST_SHARE * limit or _is_over(context, limit):
        return "none"
    if size > limit:
        return "now"
    if policy.background_share >= 1:
        return "none"
    return "background" if size > _start(context, policy, limit, turn_tokens) else "none"


def leaves_time(
    context: ContextSize, policy: CompactPolicy, *, doubt: float = 0.0, turn_tokens: float = math.inf
) -> bool:
    """Whether a summary that may be begun can as well be begun at a later call, without anyone having to wait for it.

    `doubt`, `turn_tokens`: see `stage_of`.
    """
    limit = limit_tokens(context.usable, policy)
    if limit is None:
        return False
    start = _start(context, policy, limit, turn_tokens)
    latest = min(start + _LATEST_SHARE * (limit - start), limit - _TURNS_AHEAD * _grown(context, turn_tokens))
    return _size(context, doubt) <= latest


def _size(context: ContextSize, doubt: float) -> float:
    return context.total * (1 + doubt if context.basis == "estimated" else 1)


def _grown(context: ContextSize, turn_tokens: float) -> float:
    return min(context.new + context.last_output_resent, turn_tokens) if context.basis == "anchored" else 0


def _start(context: ContextSize, policy: CompactPolicy, limit: int, turn_tokens: float) -> float:
    """The size beyond which a summary is begun. Where a turn adds much, a share of the limit comes too late."""
    start = min(policy.background_share * limit, limit - _TURNS_AHEAD * _grown(context, turn_tokens))
    return max(start, _FIRST_SHARE * limit)


def is_hopeless(context: ContextSize, policy: CompactPolicy) -> bool:
    """Whether system text and tools alone are over the limit, so that nothing we can do helps."""
    limit = limit_tokens(context.usable, policy)
    return limit is not None and _is_over(context, limit)


def _is_over(context: ContextSize, limit: int) -> bool:
    return context.system + context.tools >= limit
