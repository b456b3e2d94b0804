"""What the user wants of pruning: the `[arrive]` and `[prune]` sections as values, and the two profiles."""

from dataclasses import dataclass
from typing import Literal

PROTECTED_TOOLS = (
    "skill", "task", "agent", "todo*", "*_todo*", "update_plan", "plan_*", "*plan_mode", "question", "ask_user*",
    "ask_human*", "ask_followup*", "ask_clarification", "attempt_completion",
)  # fmt: skip
"""Tools whose results are decisions, plans or people's answers: calling again would not bring the same thing back.

Shell patterns; letter case, `_` and `-` do not count.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivePolicy:
    """What happens to a result that no model has seen yet; free for the prompt cache, safe for signed reasoning."""

    enabled: bool = True
    repeats: bool = True
    """Text that still stands whole in the body becomes a reference to it (lossless)."""
    ansi: bool = True
    """Terminal colour codes and overwritten progress lines go."""
    collapse: bool = False
    """Routine output is folded, keeping every line that differs."""
    cap_share: float = 0.5
    """A single result beyond this share of the usable window keeps head and tail; 0 switches it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePolicy:
    """When older results are replaced by a placeholder, and which."""

    policy: Literal["priced", "pressure", "always"] = "priced"
    protect_tokens: int = 40_000
    """Tokens of the newest results that stay; at most a fifth of the window."""
    minimum_tokens: int = 20_000
    """A batch must take out more than this; at most a tenth of the window."""
    keep_recent_tool_results: int = 0
    """Number of newest results that stay, whatever their size."""
    min_chars: int = 200
    """Shorter results stay."""
    protect_user_turns: int = 0
    """Results behind the n-th last user message stay."""
    protected_tools: tuple[str, ...] = PROTECTED_TOOLS
    batch_min_chars: int = 0
    """A batch must hold at least this many characters."""
    dedupe: bool = True
    """Results that a later, equal call has superseded go first, also inside the protected newest tokens."""
    engage: float = 0.75
    """Share of the window at which pressure begins ..."""
    release: float = 0.65
    """... and at which it ends."""
    keep_share: float = 0.15
    """Share of a result's tokens that its placeholder may spend on identifiers; `always` spends none."""


PRESETS = {
    "gentle": (
        ArrivePolicy(),
        PrunePolicy(protect_tokens=4_000, minimum_tokens=500, keep_share=0.12),
    ),
    "bold": (
        ArrivePolicy(collapse=True),
        PrunePolicy(protect_tokens=1_000, minimum_tokens=100, keep_share=0.09),
    ),
}
"""Profile → what it sets for policy `priced`. The price formula decides when; these say how much is kept.

Measured by tests/bench/economics.py. `protect_tokens` is for what is needed word for word; other results get a quarter. A small `minimum_tokens` is no license for many cache breaks: the formula takes a small batch only at the end of
the cached part, where there is nothing behind it to be written anew.
"""
