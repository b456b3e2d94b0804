"""What a request weighs before any plan: each message once, and of each turn only what is new."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from proxy.conversation.pairing import Pair, paired
from proxy.dialects.base import View
from proxy.dialects.lens import index_of
from proxy.exchange.receive import Received
from proxy.pruning.results import Standing, results_of
from proxy.tokens.estimate import Scale, Weight


class Size(NamedTuple):
    """What a tool result weighs as the client sent it. A tuple, since every request has hundreds of them."""

    tokens: int
    message: int
    part: int
    tool: str
    """`?` when nobody says."""


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """A request on the scale, before any plan."""

    weights: tuple[Weight, ...]
    """Of each message of the history, as the client sent it."""
    totals: tuple[int, ...]
    """The same in one number each."""
    total: int
    """Of all messages together."""
    reasoning: int
    """Of all reasoning in them."""
    system: int
    tools: int
    index: dict[bytes, int]
    """Prefix key → index of its message."""
    bare: tuple[tuple[int, ...], ...]
    """Of each part of each message, without what the wire format adds around a result: that stays when the content is
    replaced."""
    sizes: tuple[tuple[Size, ...], ...]
    """Of the results of each message."""

    def contents(self, index: int) -> tuple[int, ...]:
        """Tokens of each part of message `index` without that envelope: what replacing a result's content can save."""
        return self.bare[index]


def weigh(received: Received, scale: Scale) -> Weighed:
    """Weigh what the request carries; every message only once a process."""
    conversation, extended = received.conversation, received.view.notes.extended
    weights = weights_of(received.view, scale)
    envelope = scale.overheads.result
    totals: tuple[int, ...] = extended(
        ("totals", scale.name), lambda known: [weight.total for weight in weights[len(known) :]]
    )
    reasoning: tuple[int, ...] = extended(
        ("reasoning", scale.name), lambda known: [weight.reasoning for weight in weights[len(known) :]]
    )
    return Weighed(
        weights=weights,
        totals=totals,
        total=sum(totals),
        reasoning=sum(reasoning),
        system=scale.weigh_system(conversation),
        tools=scale.weigh_tools(conversation.tools),
        index=index_of(received.keys),
        bare=extended(
            ("bare", scale.name),
            lambda known: [tuple([max(0, part - envelope) for part in new.parts]) for new in weights[len(known) :]],
        ),
        sizes=extended(
            ("sizes", scale.name), lambda known: [_sizes(own, weights) for own in pairs_of(received.view)[len(known) :]]
        ),
    )


def _sizes(found: Sequence[Pair], weights: Sequence[Weight]) -> tuple[Size, ...]:
    return tuple(
        Size(weights[pair.message].parts[pair.part], pair.message, pair.part, pair.tool or "?") for pair in found
    )


def weights_of(view: View, scale: Scale) -> tuple[Weight, ...]:
    """The weight of each message; those that the line's last request had are not even looked up."""
    messages = view.conversation.messages
    return view.notes.extended(("weights", scale.name), lambda known: map(scale.weigh, messages[len(known) :]))


def pairs_of(view: View) -> tuple[tuple[Pair, ...], ...]:
    """The results of each message with their calls; only new messages are looked at."""
    messages = view.conversation.messages
    return view.notes.extended("pairs", lambda known: paired(messages, known)[len(known) :])


def results_in(received: Received, weighed: Weighed, scale: Scale) -> tuple[tuple[Standing, ...], ...]:
    """The results of each message as the client sent them; only new messages are looked at."""
    view, keys = received.view, received.keys
    messages, found = view.conversation.messages, pairs_of(view)
    return view.notes.extended(
        ("results", received.origin, scale.name),
        lambda known: [results_of(own, messages, keys, weighed.contents) for own in found[len(known) :]],
    )


def known_weights(view: View, scale: Scale) -> int:
    """The number of leading messages that `weights_of` need not look up."""
    return view.notes.known(("weights", scale.name))
