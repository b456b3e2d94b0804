"""What the provider's own counts say of the sizes that decisions are made from, beside what we estimate."""

from collections.abc import Sequence
from typing import NamedTuple

from proxy.exchange.measure import sealed_in, with_sealed
from proxy.exchange.ready import Draft


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
    return with_sealed(draft.tokens, sealed, draft.context.total / draft.learned.factor - head - sum(draft.tokens))
