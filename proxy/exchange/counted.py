"""What the provider's own counts say of the sizes that decisions are made from, beside what we estimate."""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.conversation.model import last_words
from proxy.exchange.measure import reply_end, sealed_in, with_sealed
from proxy.exchange.ready import Draft
from proxy.exchange.spent import drops_reasoning


class Counted(NamedTuple):
    """See `pruning.situation`."""

    tokens: Sequence[int]
    """Of each message."""
    rate: float | None
    least: int | None


def counted_of(draft: Draft) -> Counted:
    """A draft's sizes, and the rate at which its provider has counted what the measured call had sent.

    As long as nothing is learned of a provider's tokenizer, what is new is estimated as if it were ours, beside a past that
    the provider has counted. One rate for both together would be wrong for each.
    """
    head = draft.weighed.system + draft.weighed.tools
    tokens = _tokens_of(draft, head)
    context, end = draft.context, draft.memory.measured_at + 1
    ours = head + sum(tokens[:end])
    if context.basis == "estimated" or not end or not ours:
        return Counted(tokens, rate=None, least=None)
    rate = (context.last_input + context.corrections) / ours
    return Counted(tokens, rate, context.total - max(0, context.new - round(rate * draft.inputs.growth.tokens)))


def _tokens_of(draft: Draft, head: int) -> Sequence[int]:
    """Tokens of each message, that of sealed reasoning included."""
    conversation, notes = draft.received.conversation, draft.received.view.notes
    sealed = notes.extended("sealed", lambda known: sealed_in(conversation.messages[len(known) :]))
    if not any(sealed):
        return draft.tokens
    factor = draft.learned.factor
    unexplained = draft.context.total / factor - head - sum(draft.tokens)
    return with_sealed(draft.tokens, sealed, unexplained, _told(draft, sealed))


def _told(draft: Draft, sealed: Sequence[bool]) -> dict[int, float]:
    """Sealed reasoning of those answers of which the provider has told it, by the message that holds it: ours to its scale."""
    known, spent = {}, 0
    if drops_reasoning(draft.policy.reasoning, draft.learned):
        spent = max(0, last_words(draft.received.conversation.messages))
        known = dict.fromkeys([number for number in range(spent) if sealed[number]], 0.0)
    for end, anchor in draft.memory.calls:
        tokens = anchor.usage.reasoning_tokens if anchor is not None and anchor.usage is not None else None
        holder = next((number for number in range(max(end + 1, spent), len(sealed)) if sealed[number]), None)
        if tokens and holder is not None and end + 1 <= holder < reply_end(draft.received.conversation.messages, end):
            known[holder] = tokens / draft.learned.factor
    return known
