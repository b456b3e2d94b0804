"""When a conversation is compacted: the `[compact]` section as a value, and the one question it answers."""

from dataclasses import dataclass
from typing import Literal

from proxy.tokens.context import ContextSize

Stage = Literal["none", "background", "now"]

MOST_TAIL_TOKENS = 15_000
"""The kept tail never needs more: opencode's clamp (2026-08)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPolicy:
    """What the user wants of compaction."""

    trigger: Literal["window", "share", "off"] = "window"
    """window: when input and answer no longer fit. share: at `share` of what is usable, by choice. off: never."""
    share: float = 1.0
    background_share: float = 0.85
    """The summary is begun at this part of the limit, so that it is ready when the limit is reached."""
    model: str = ""
    """Writes the summaries; empty: the conversation's own model."""
    keep_recent_messages: int = 2
    tail_share: float = 0.25
    """Part of the usable window that the newest messages may keep, at most MOST_TAIL_TOKENS."""
    max_summary_tokens: int = 4_000


def limit_tokens(context: ContextSize, policy: CompactPolicy) -> int | None:
    """Input tokens beyond which the conversation is compacted; None: never (off, or the window is unknown)."""
    usable = context.usable
    if usable is None or policy.trigger == "off":
        return None
    return int(usable * policy.share) if policy.trigger == "share" else usable


def stage_of(context: ContextSize, policy: CompactPolicy, *, doubt: float = 0.0) -> Stage:
    """What is due. `doubt`: share by which a pure estimate may be too low, for tokenizers that we do not know."""
    limit = limit_tokens(context, policy)
    if limit is None or context.system + context.tools >= limit:
        # System text and tools alone are over the limit: no summary can help.
        return "none"
    size = context.total * (1 + doubt if context.basis == "estimated" else 1)
    if size > limit:
        return "now"
    return "background" if policy.background_share < 1 and size > policy.background_share * limit else "none"


def is_hopeless(context: ContextSize, policy: CompactPolicy) -> bool:
    """Whether system text and tools alone are over the limit, so that nothing we can do helps."""
    limit = limit_tokens(context, policy)
    return limit is not None and context.system + context.tools >= limit
