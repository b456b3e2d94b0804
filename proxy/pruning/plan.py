"""The two decisions of pruning: what happens to results at first sight, and which older results go.

`arrive` edits only results that no model has seen, so it neither breaks a prompt cache nor touches what signed
reasoning is bound to. `prune` edits only results that a model has seen. Both return edits; neither applies them.
"""

from collections.abc import Sequence

from proxy.conversation.edit import Edit, Replace
from proxy.pruning.placeholder import placeholder
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Decision, Situation
from proxy.pruning.standing import Standing, replaceable, standing_results
from proxy.pruning.strategies.repeats import repeats

_LARGEST_PROTECTED_SHARE = 0.2
_LARGEST_MINIMUM_SHARE = 0.1


def arrive(situation: Situation, policy: ArrivePolicy) -> tuple[Edit, ...]:
    """Edits of unseen results. Nothing here can break a prompt cache or a signature."""
    if not policy.enabled or situation.seen >= len(situation.messages):
        return ()
    results = standing_results(situation)
    edits: list[Edit] = []
    for fresh in results:
        if fresh.message < situation.seen or fresh.edit or fresh.broken or fresh.result.fixed or fresh.result.media:
            continue
        edit = repeats(fresh, results, situation) if policy.repeats else None
        if edit is not None and edit.tokens_after < edit.tokens_before:
            edits.append(edit)
    return tuple(edits)


def prune(situation: Situation, policy: PrunePolicy) -> Decision:
    """Placeholders for older results, in one batch, or the reason why not."""
    pressed = under_pressure(situation, policy)
    if policy.policy == "pressure" and not pressed:
        return Decision(pressed=pressed)
    results = standing_results(situation)
    chosen = _old_enough(results, replaceable(results, situation, policy), situation, policy)
    if not chosen:
        return Decision(pressed=pressed)
    if sum(standing.tokens for standing in chosen) <= _minimum(situation, policy):
        return Decision(skipped="batch_below_minimum", pressed=pressed)
    if sum(len(standing.text) for standing in chosen) < policy.batch_min_chars:
        return Decision(skipped="batch_below_minimum", pressed=pressed)
    edits = [_clear(standing, situation, policy) for standing in chosen]
    return Decision(edits=tuple(edit for edit in edits if edit.tokens_after < edit.tokens_before), pressed=pressed)


def under_pressure(situation: Situation, policy: PrunePolicy) -> bool:
    """Input and answer together fill more than `engage` of the window, or have not yet fallen below `release`."""
    if situation.window is None:
        return False
    share = policy.release if situation.pressed else policy.engage
    return situation.total + situation.reserve > share * situation.window


def _protect(situation: Situation, policy: PrunePolicy) -> float:
    if situation.window is None:
        return policy.protect_tokens
    return min(policy.protect_tokens, _LARGEST_PROTECTED_SHARE * situation.window)


def _minimum(situation: Situation, policy: PrunePolicy) -> float:
    if situation.window is None:
        return policy.minimum_tokens
    return min(policy.minimum_tokens, _LARGEST_MINIMUM_SHARE * situation.window)


def _old_enough(
    results: Sequence[Standing], allowed: Sequence[Standing], situation: Situation, policy: PrunePolicy
) -> list[Standing]:
    """The allowed results behind which more than `protect_tokens` of result text stands, their own included."""
    protect = _protect(situation, policy)
    passed = 0
    old = set()
    for standing in reversed(results):
        passed += standing.tokens
        if passed > protect:
            old.add((standing.message, standing.part))
    return [standing for standing in allowed if (standing.message, standing.part) in old]


def _clear(standing: Standing, situation: Situation, policy: PrunePolicy) -> Replace:
    room = 0 if policy.policy == "always" else int(standing.tokens * policy.keep_share)
    text = placeholder(standing.result, standing.tool, situation.tools, situation.count, room)
    return Replace(
        at=situation.keys[standing.message],
        part=standing.part,
        kind="clear",
        text=text,
        reason="older output",
        tool=standing.tool,
        tokens_before=standing.tokens,
        tokens_after=situation.count(text),
    )
