"""The two decisions of pruning: what happens to results at first sight, and which older results go.

`arrive` (pruning.arrival) edits only results that no model has seen, so it neither breaks a prompt cache nor touches
what signed reasoning is bound to. `prune` edits only results that a model has seen. Both return edits and apply none.
"""

from collections.abc import Collection, Sequence

from proxy.conversation.edit import Replace
from proxy.conversation.model import Message, Text, ToolCall, ToolResult
from proxy.conversation.steps import STEP_CHARS, Steps, Stepwise
from proxy.pruning.ages import Ages, Protection
from proxy.pruning.arrival import arrive
from proxy.pruning.gate import bound_until
from proxy.pruning.identifiers import words, words_of_json
from proxy.pruning.placeholder import NOTE_TOKENS, placeholder, room_for
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.reading import offers_editing, shows_failure
from proxy.pruning.results import Standing, replacements
from proxy.pruning.situation import Decision, Situation, stays_cached
from proxy.pruning.worth import Batch, best_batch

__all__ = ["arrive", "is_pressed", "prune", "read_names", "under_pressure"]

_NEW_MESSAGES = 8
_THIN = 0.85
_LARGEST_PROTECTED_SHARE = 0.2
_LARGEST_MINIMUM_SHARE = 0.1


@Stepwise
def prune(situation: Situation, policy: PrunePolicy, ages: Ages | None = None) -> Steps[Decision]:
    """Placeholders for older results, in one batch, or the reason why not.

    `ages`: the same object for all requests of a conversation saves looking at every result again.
    """
    pressed = under_pressure(situation, policy)
    if policy.policy == "pressure" and not pressed:
        return Decision(pressed=pressed)
    old = (ages or Ages()).replaceable(situation, _protection(situation, policy), policy)
    if not old:
        return Decision(pressed=pressed)
    bound = bound_until(situation.model, situation.messages) if situation.bound is None else situation.bound
    free = [standing for standing in old if standing.message >= bound]
    if not free:
        return Decision(skipped="signed_reasoning", pressed=pressed)
    if policy.keep_share:
        # Read each message's names as soon as it may go, so that a batch need not read the whole history at once.
        newest = free[-1].message + 1
        read_names(situation.messages[max(0, newest - _NEW_MESSAGES) : newest])
    chosen, share, skipped = _chosen(free, situation, policy, pressed=pressed)
    if not chosen:
        return Decision(skipped=skipped, pressed=pressed)
    edits = yield from _clears(chosen, situation, share)
    if policy.policy == "priced" and not (pressed and _is_urgent(situation, policy)):
        edits, skipped = _as_written(edits, chosen, situation, policy)
    return Decision(edits=edits, skipped=skipped, pressed=pressed)


def under_pressure(situation: Situation, policy: PrunePolicy) -> bool:
    """Input and answer together fill more than `engage` of the window, or have not yet fallen below `release`."""
    filled = situation.total + situation.reserve
    return is_pressed(filled, situation.window, policy, before=situation.pressed)


def is_pressed(filled: int, window: int | None, policy: PrunePolicy, *, before: bool) -> bool:
    """The same from its numbers alone. `filled`: tokens of input and answer; `before`: the line's last call was pressed."""
    return window is not None and filled > (policy.release if before else policy.engage) * window


def _is_urgent(situation: Situation, policy: PrunePolicy) -> bool:
    """Whether `priced` must act whatever it costs: half of what was left of the window at `engage` is gone."""
    if situation.window is None:
        return False
    return situation.total + situation.reserve > (1 + policy.engage) / 2 * situation.window


def _protection(situation: Situation, policy: PrunePolicy) -> Protection:
    """How long results are protected.

    `priced` gives the full protection to what is needed word for word (see pruning.reading), and a quarter of it to all
    else: of that, the names are what is needed again, and the placeholder keeps them.
    """
    full = _scaled(policy.protect_tokens, _LARGEST_PROTECTED_SHARE, situation)
    if policy.policy != "priced":
        return Protection(full, full)
    return Protection(full / 4, full, _read_or_failed if offers_editing(situation.tools) else _failed)


def _read_or_failed(standing: Standing) -> bool:
    return standing.reads or _failed(standing)


def _failed(standing: Standing) -> bool:
    return shows_failure(standing.text)


def _scaled(tokens: int, share: float, situation: Situation) -> float:
    """An absolute number of tokens, scaled down for windows that it would fill."""
    return tokens if situation.window is None else min(tokens, share * situation.window)


def _chosen(
    free: Sequence[Standing], situation: Situation, policy: PrunePolicy, *, pressed: bool
) -> tuple[Sequence[Standing], float, str]:
    """The batch to be replaced, the share of it that the placeholders may keep, and why there is none."""
    minimum = _scaled(policy.minimum_tokens, _LARGEST_MINIMUM_SHARE, situation)
    share = 0.0 if policy.policy == "always" else policy.keep_share
    if policy.policy == "priced":
        batch = _priced(free, situation, policy, minimum, share)
        thin = min(share, _THIN * situation.prices.read / situation.prices.write) if situation.prices else share
        if batch.skipped == "would_risk_a_loss" and thin < share:
            # Still nothing in the purse. A placeholder this much smaller costs no more to write than what it replaces
            # would cost to be read once more, so a result at the end of what is cached may go all the same.
            share = thin
            batch = _priced(free, situation, policy, minimum, share)
        if batch.chosen or not (pressed and _is_urgent(situation, policy)):
            return batch.chosen, share, batch.skipped
        minimum = max(minimum, _relief(situation))
    if sum(standing.tokens for standing in free) <= minimum:
        return (), share, "batch_below_minimum"
    if sum(len(standing.text) for standing in free) < policy.batch_min_chars:
        return (), share, "batch_below_minimum"
    return free, share, ""


def _relief(situation: Situation) -> float:
    """What must go to be worth any price: less would soon be followed by a summary, which breaks the cache anyway.

    What no longer fits is worth it whatever it is.
    """
    if situation.window is None or situation.total > (situation.usable or 0):
        return 0.0
    return _LARGEST_MINIMUM_SHARE * situation.window


def _priced(free: Sequence[Standing], situation: Situation, policy: PrunePolicy, minimum: float, share: float) -> Batch:
    left = [(standing, NOTE_TOKENS + room_for(standing.tokens, share)) for standing in free]
    worth_it = [(standing, tokens) for standing, tokens in left if tokens < standing.tokens / 2]
    return best_batch(worth_it, situation, minimum=minimum, chars=policy.batch_min_chars)


def _as_written(
    edits: tuple[Replace, ...], chosen: Sequence[Standing], situation: Situation, policy: PrunePolicy
) -> tuple[tuple[Replace, ...], str]:
    """Those of the edits that pay by what they take out in truth, and why there is none.

    A placeholder may come out shorter than was reckoned with, so that too little is left for the cache.
    """
    if not edits or stays_cached(situation, sum([edit.tokens_before - edit.tokens_after for edit in edits])):
        return edits, ""
    written = replacements(edits)
    left = [(one, written[one.key, one.part].tokens_after) for one in chosen if (one.key, one.part) in written]
    minimum = _scaled(policy.minimum_tokens, _LARGEST_MINIMUM_SHARE, situation)
    batch = best_batch(left, situation, minimum=minimum, chars=policy.batch_min_chars)
    return tuple([written[one.key, one.part] for one in batch.chosen]), batch.skipped


def _clears(chosen: Sequence[Standing], situation: Situation, share: float) -> Steps[tuple[Replace, ...]]:
    known = situation.lasting.names(situation.messages, situation.keys) if share else frozenset()
    if len(chosen) > 1:
        # Between two steps another request of the conversation may add to them.
        known = frozenset(known)
    edits: list[Replace] = []
    looked_at = 0
    for standing in chosen:
        edit = _clear(standing, situation, share, known)
        if edit.tokens_after < edit.tokens_before:
            edits.append(edit)
        looked_at += len(standing.text)
        if looked_at > STEP_CHARS:
            looked_at = 0
            yield
    return tuple(edits)


def _clear(standing: Standing, situation: Situation, share: float, known: Collection[str]) -> Replace:
    text = placeholder(
        standing.result,
        standing.tool,
        offered=situation.tools,
        count=situation.count,
        room_tokens=room_for(standing.tokens, share),
        known=known,
    )
    return Replace(
        at=situation.keys[standing.message],
        part=standing.part,
        kind="clear",
        text=text,
        reason="older output",
        tool=standing.tool,
        decided=len(situation.messages),
        tokens_before=standing.tokens,
        tokens_after=situation.count(text),
    )


def read_names(messages: Sequence[Message]) -> None:
    """Look at the names in these messages, for placeholders to come; `words` remembers them."""
    for message in messages:
        for part in message.parts:
            match part:
                case Text() | ToolResult():
                    words(part.text)
                case ToolCall():
                    words_of_json(part.arguments)
                case _:
                    pass
