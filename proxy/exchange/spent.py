"""Reasoning of earlier turns, which some providers take out of the request by themselves once the user speaks again.

Clients send it back all the same, and within its turn it counts. Whether a provider does so stands in the table of rules,
until its own counts have shown it.
"""

from collections.abc import Container

from proxy.conversation.model import Message, Reasoning, last_words
from proxy.exchange.receive import Memory, Received, joins_at
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


def is_sealed(message: Message) -> bool:
    """Whether it holds encrypted reasoning, whose length says nothing."""
    return any(isinstance(part, Reasoning) and part.signed and not part.text for part in message.parts)


def told_reasoning(received: Received, memory: Memory) -> dict[int, int]:
    """Tokens of encrypted reasoning, as far as the provider told them, by the index of the message that holds it."""
    messages, told = received.conversation.messages, {}
    for end, anchor in memory.calls:
        tokens = anchor.usage.reasoning_tokens if anchor is not None and anchor.usage is not None else None
        number = end + 1
        while tokens and number < len(messages) and messages[number].role == "assistant":
            if is_sealed(messages[number]):
                told[number] = tokens
                break
            number += 1
    return told


def swallowed_reasoning(received: Received, memory: Memory, taken: Container[int], *, drops: bool) -> int:
    """Tokens of encrypted reasoning that the measured call had sent and that summaries have taken in since.

    `taken`: indices of the messages in those summaries. Our own count of them leaves it out. `drops`: the provider takes out
    that of earlier turns.
    """
    end = memory.measured_at + 1
    since = max(0, last_words(received.conversation.messages[:end])) if drops else 0
    told = told_reasoning(received, memory)
    return sum([tokens for number, tokens in told.items() if since <= number < end and number in taken])


def left_reasoning(received: Received, memory: Memory, taken: Container[int], *, drops: bool) -> int:
    """Tokens of encrypted reasoning that still count where summaries stand, as far as the provider told them.

    `taken`, `drops`: see `swallowed_reasoning`.
    """
    since = last_words(received.conversation.messages) if drops else 0
    told = told_reasoning(received, memory)
    return sum([tokens for number, tokens in told.items() if number >= since and number not in taken])


def spent_reasoning(
    received: Received, memory: Memory, end: int, scale: Scale, factor: float, taken: Container[int]
) -> int:
    """Tokens of reasoning that counted in the measured call's turn, and that are of an earlier turn in this request.

    0 where the user has said nothing since. `end`: index behind the last message whose size the provider has told. `factor`:
    its tokens for each of ours. `taken`: indices of the messages in whose place a summary stands.
    """
    messages, at = received.conversation.messages, memory.measured_at
    # What stands at the end for this moment only had its like in the measured call, where it ended the turn as it does now.
    stays = joins_at(received, memory)
    if at < 0 or last_words(messages if stays < 0 else messages[: stays + 1]) <= at:
        return 0
    told, tokens = told_reasoning(received, memory), 0
    for number in range(max(0, last_words(messages[: at + 1])), end):
        if number not in taken and any(isinstance(part, Reasoning) for part in messages[number].parts):
            # Of encrypted reasoning only the provider knows the length.
            tokens += told.get(number) or round(factor * scale.weigh(messages[number]).reasoning)
    return tokens


def dropped_share(expected: int, actual: int, spent: int, *, dropped: bool) -> float | None:
    """How much of that the provider has taken out, 0 to 1, by its count; None where it says nothing.

    `expected`: input that was predicted, `dropped`: without it.
    """
    if spent < _LEAST:
        return None
    share = (expected - actual) / spent + dropped
    return min(1.0, max(0.0, share))
