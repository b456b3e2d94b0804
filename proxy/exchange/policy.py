"""What is to be done with a call: the settings that concern it, resolved for one upstream and model."""

from dataclasses import dataclass
from typing import Literal

from proxy.compaction.policy import CompactPolicy
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.reasoning import LEAVE_REASONING, ReasoningPolicy
from proxy.pruning.situation import Prices


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Calls of earlier conversations that have ended. Told apart as such: each call asks by them for its policy."""

    calls: tuple[int, ...] = ()


NO_LENGTHS = Lengths()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that `prepare` must know besides the request and its past."""

    mode: Literal["off", "observe", "prune"] = "prune"
    arrive: ArrivePolicy = ArrivePolicy()
    prune: PrunePolicy = PrunePolicy()
    compact: CompactPolicy = CompactPolicy()
    reasoning: ReasoningPolicy = LEAVE_REASONING
    window: int | None = None
    """Context window in tokens; None when nobody knows it."""
    max_input: int | None = None
    """A limit of the input alone, where the provider has one that is smaller than the window."""
    max_output: int | None = None
    """The model's own limit for one answer."""
    prices: Prices | None = None
    """Cache price ratios; None when the provider has no prompt cache."""
    cache_ttl_s: float = 300.0
    """How long an unused cache entry lives."""
    cache_outlives: bool = False
    """It may live longer than that, up to a day."""
    horizon: int | None = None
    """How many more calls a conversation is taken to make; None: as earlier ones did."""
    lengths: Lengths = NO_LENGTHS
    holdout: float = 0.0
    """Share of conversations that are left alone, to compare with."""
    doubt: float = 0.0
    """Share by which a pure estimate may be too low: our tokenizer is not the model's."""
    correction: int = 0
    """Tokens to add to this request's estimate, signed: by so much the provider's own count of it is higher."""
    alternates: bool = False
    """The server's chat template wants roles to alternate."""
    rescues: bool = False
    """The provider has refused this very request as too long: it is edited also where edited requests were refused before."""
    replay_only: bool = False
    """The inherited plan and no new decisions (requests that only count)."""
    ask_usage: bool = False
    """Ask for usage in streams whose client did not."""
    auto_cache: bool = False
    """Set cache breakpoints where the client set none."""
