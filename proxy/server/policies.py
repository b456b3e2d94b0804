"""Settings, resolved for one upstream and model into what the pure rooms are told."""

from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from proxy.compaction.policy import CompactPolicy
from proxy.exchange.policy import Lengths, Policy
from proxy.pricing.prices import CacheHabit, Price, PriceOverrides, habit_for, price_for
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.reasoning import ReasoningPolicy
from proxy.pruning.reasoning_rules import Lesson, learned_rule, reasoning_rule
from proxy.pruning.situation import Prices
from proxy.server.tokenizers import is_known_tokenizer, tokenizer_for
from proxy.settings.values import Mode, Settings
from proxy.tokens.windows import Limits, limits_for

DOUBT = 0.15
"""o200k_base was measured 8 % low for Claude Sonnet 4.5, 24 % for Opus 4.5 and 22 % for Llama 4 on complete requests."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What settings and tables say about a model at an upstream. There is one for each, hence told apart as such."""

    policy: Policy
    encoding: str
    """In which its texts are counted."""
    price: Price | None
    habit: CacheHabit


def encoding_wish(settings: Settings, upstream: str, model: str) -> str:
    """The encoding that the settings want a model's texts counted in; `auto` leaves it to its name."""
    return settings.model(upstream, model).tokenizer or settings.estimate.tokenizer


class Policies:
    """Resolves and remembers; few models are in use at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.known = lru_cache(maxsize=1024)(self._known)
        self.after_lessons = lru_cache(maxsize=1024)(_after_lessons)

    def _known(self, upstream: str, model: str, mode: Mode, learned_window: int | None) -> Known:
        settings = self._settings
        chosen = settings.model(upstream, model)
        limits = limits_for(
            model, upstream=upstream, overrides=Limits(window=chosen.window, max_output=chosen.max_output)
        )
        overrides = PriceOverrides(
            cache_read_ratio=chosen.cache_read_ratio,
            cache_write_ratio=chosen.cache_write_ratio,
            cache_ttl_s=chosen.cache_ttl_s,
        )
        habit = habit_for(model, upstream=upstream, overrides=overrides)
        there = settings.upstreams.get(upstream)
        policy = Policy(
            mode=mode,
            arrive=ArrivePolicy(**msgspec.structs.asdict(settings.arrive)),
            prune=PrunePolicy(
                **{
                    name: value
                    for name, value in msgspec.structs.asdict(settings.prune).items()
                    if name in PrunePolicy.__dataclass_fields__
                }
            ),
            compact=CompactPolicy(**msgspec.structs.asdict(settings.compact)),
            reasoning=ReasoningPolicy(
                strip=settings.reasoning.strip,
                restore=settings.reasoning.restore,
                drop_bound=settings.reasoning.drop_bound,
                rule=reasoning_rule(model, upstream=upstream, must_pass_back=chosen.must_pass_back_reasoning),
            ),
            doubt=0.0 if is_known_tokenizer(model) else DOUBT,
            window=chosen.window or learned_window or limits.window,
            max_input=limits.max_input,
            max_output=limits.max_output,
            prices=prices_of(habit),
            cache_ttl_s=habit.ttl_s,
            cache_outlives=habit.outlives,
            horizon=None if settings.prune.horizon == "learned" else settings.prune.horizon,
            holdout=settings.prune.holdout,
            ask_usage=there is not None and there.ask_usage,
            auto_cache=there is not None and there.auto_cache,
        )
        return Known(
            policy=policy,
            encoding=tokenizer_for(model, encoding_wish(settings, upstream, model)),
            price=price_for(model, upstream=upstream, overrides=overrides),
            habit=habit,
        )


def prices_of(habit: CacheHabit) -> Prices | None:
    """What pruning reckons with; None where there is no cache to break."""
    if habit.read_ratio >= 1:
        return None
    return Prices(read=habit.read_ratio, write=habit.write_ratio, minimum=habit.min_prefix)


def _after_lessons(
    known: Known,
    *,
    ask_usage: bool,
    auto_cache: bool,
    alternates: bool,
    replay_only: bool,
    lesson: Lesson,
    lengths: Lengths,
) -> Policy:
    """The policy with what was learned while running."""
    policy = alternating(known.policy) if alternates else known.policy
    return replace(
        policy,
        ask_usage=ask_usage,
        auto_cache=auto_cache,
        replay_only=replay_only,
        reasoning=replace(policy.reasoning, rule=learned_rule(policy.reasoning.rule, lesson)),
        lengths=lengths,
    )


def alternating(policy: Policy) -> Policy:
    """The policy where roles must alternate: records that are made early would be user messages side by side."""
    return replace(policy, alternates=True, compact=replace(policy.compact, early=False))
