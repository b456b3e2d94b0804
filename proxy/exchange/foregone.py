"""Requests about which nothing is left to decide: they go out as they came, whatever they turn out to weigh."""

from proxy.compaction.policy import limit_tokens
from proxy.conversation.edit import EMPTY_PLAN
from proxy.conversation.model import Text, ToolCall
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import unpruned, why_no_decisions
from proxy.exchange.ready import Ready, draft_of, ready_of
from proxy.exchange.receive import Memory, Received
from proxy.exchange.weigh import weigh
from proxy.ledger.records import Queued
from proxy.tokens.context import reserve_tokens, usable_tokens
from proxy.tokens.estimate import Scale
from proxy.tokens.learn import Learned

_ROOM_SHARE = 1 / 8
"""Of the limit, which a foregone request may fill at most: compaction looks at half of it, and what was learned of the model
may correct a count by a few times, never by four."""


def goes_as_it_came(received: Received, memory: Memory, policy: Policy, queued: tuple[Queued, ...]) -> bool:
    """Whether `prepare` can only give back the client's own bytes, without edits and without a need.

    On the safe side, since it is asked before anything is counted: True only of small requests that hold nothing but
    text and calls, of conversations in which nothing was ever edited.
    """
    if memory.plan.edits or queued or policy.auto_cache or policy.compact.early:
        return False
    if policy.ask_usage and received.dialect.ask_usage(received.view):
        return False
    if not _is_small(received, memory, policy) or memory.answered:
        return False
    for message in received.conversation.messages:
        for part in message.parts:
            if not isinstance(part, (Text, ToolCall)):
                return False
    return True


def foregone(
    received: Received,
    memory: Memory,
    policy: Policy,
    scale: Scale,
    *,
    now: float,
    held_out: bool,
    learned: Learned,
) -> Ready:
    """What `prepare` gives for such a request, which no kind of edit is asked about: whatever it holds, it goes out as it came."""
    draft = draft_of(received, memory, weigh(received, scale, plain=True), scale, policy, learned, EMPTY_PLAN)
    skipped, pressed = why_no_decisions(received, memory, policy, held_out=held_out), memory.pressed
    if not skipped:
        skipped, pressed = unpruned(draft)
    return ready_of(draft, now=now, skipped=skipped, pressed=pressed)


def _is_small(received: Received, memory: Memory, policy: Policy) -> bool:
    """Whether it is far from every limit: no token is shorter than a byte."""
    reserve = reserve_tokens(received.conversation.max_output, policy.max_output, policy.window)
    limit = limit_tokens(usable_tokens(policy.window, reserve, policy.max_input), policy.compact)
    if limit is None:
        return True
    usage = memory.measured.usage if memory.measured is not None else None
    known = (usage.input_tokens or 0) + (usage.output_tokens or 0) if usage is not None else 0
    return known + len(received.view.body) <= _ROOM_SHARE * limit
