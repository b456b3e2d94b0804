"""Reasoning of earlier turns, which some providers take out of the request by themselves once the user speaks again.

Clients send it back all the same, and within its turn it counts. Whether a provider does so stands in the table of rules,
until its own counts have shown it.
"""

from proxy.conversation.model import Reasoning, last_words
from proxy.exchange.receive import Memory, Received
from proxy.pruning.reasoning import ReasoningPolicy
from proxy.tokens.estimate import Scale
from proxy.tokens.learn import Learned

_HALF = 0.5
_LEAST = 100
"""Tokens of it below which a count tells nothing."""


def drops_reasoning(policy: ReasoningPolicy, learned: Learned) -> bool:
    """Whether the provider takes earlier turns' reasoning out. Not asked where we do so ourselves."""
    if policy.strip != "none":
        return False
    return policy.rule.drops if learned.turns_dropped is None else learned.turns_dropped >= _HALF


def spent_reasoning(received: Received, memory: Memory, end: int, scale: Scale, factor: float) -> int:
    """Tokens of reasoning that counted in the measured call's turn, and that are of an earlier turn in this request.

    0 where the user has said nothing since. `end`: index behind the last message whose size the provider has told. `factor`:
    its tokens for each of ours.
    """
    messages, at = received.conversation.messages, memory.measured_at
    if at < 0 or last_words(messages) <= at:
        return 0
    told = {end: anchor.usage.reasoning_tokens or 0 for end, anchor in memory.calls if anchor and anchor.usage}
    tokens = 0
    for number in range(max(0, last_words(messages[: at + 1])), end):
        if any(isinstance(part, Reasoning) for part in messages[number].parts):
            # Of encrypted reasoning only the provider knows the length.
            tokens += max(round(factor * scale.weigh(messages[number]).reasoning), told.pop(number - 1, 0))
    return tokens


def dropped_share(expected: int, actual: int, spent: int, *, dropped: bool) -> float | None:
    """How much of that the provider has taken out, 0 to 1, by its count; None where it says nothing.

    `expected`: input that was predicted, `dropped`: without it.
    """
    if spent < _LEAST:
        return None
    share = (expected - actual) / spent + dropped
    return min(1.0, max(0.0, share))
