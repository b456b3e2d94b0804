"""What the provider's own counts say of the sizes that decisions are made from, beside what we estimate."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proxy.conversation.model import last_words
from proxy.exchange.ready import Draft
from proxy.exchange.spent import drops_reasoning, is_sealed, told_reasoning


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
    tokens = tokens_of(draft)
    context, end = draft.context, draft.memory.measured_at + 1
    ours = head + sum(tokens[:end])
    if context.basis == "estimated" or not end or not ours:
        return Counted(tokens, rate=None, least=None)
    rate = (context.last_input + context.corrections) / ours
    return Counted(tokens, rate, context.total - max(0, context.new - round(rate * draft.inputs.growth.tokens)))


def tokens_of(draft: Draft) -> Sequence[int]:
    """Tokens of each message as it goes out, that of sealed reasoning included."""
    conversation, notes = draft.received.conversation, draft.received.view.notes
    sealed = notes.extended("sealed", lambda known: map(is_sealed, conversation.messages[len(known) :]))
    if not any(sealed):
        return draft.tokens
    factor, head = draft.learned.factor, draft.weighed.system + draft.weighed.tools
    unexplained = draft.context.total / factor - head - sum(draft.tokens)
    return with_sealed(draft.tokens, sealed, unexplained, _told(draft, sealed))


def _told(draft: Draft, sealed: Sequence[bool]) -> dict[int, float]:
    """Sealed reasoning of those answers of which the provider has told it, on our scale, by the message that holds it."""
    told: dict[int, float] = {
        number: tokens / draft.learned.factor for number, tokens in told_reasoning(draft.received, draft.memory).items()
    }
    if drops_reasoning(draft.policy.reasoning, draft.learned):
        gone = max(0, last_words(draft.received.conversation.messages))
        told.update(dict.fromkeys([number for number in range(gone) if sealed[number]], 0.0))
    return told


def with_sealed(
    tokens: Sequence[int], sealed: Sequence[bool], unexplained: float, told: Mapping[int, float]
) -> Sequence[int]:
    """Tokens of each message with its share of those that only the provider's counts tell of, where reasoning is sealed.

    `told`: what is known of single messages, by their index; the others share the rest. A message that does not go out
    (0 tokens) has none.
    """
    holders = [number for number, (held, own) in enumerate(zip(sealed, tokens, strict=True)) if held and own]
    if not holders or unexplained <= 0:
        return tokens
    known = {number: told[number] for number in holders if number in told}
    # They cannot hold more than there is.
    scale = min(1.0, unexplained / max(1.0, sum(known.values())))
    others = len(holders) - len(known)
    share = int((unexplained - scale * sum(known.values())) / others) if others else 0
    weighed = list(tokens)
    for number in holders:
        weighed[number] += int(scale * known[number]) if number in known else share
    return weighed
