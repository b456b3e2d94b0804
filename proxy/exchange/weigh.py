"""What a request weighs before any plan: each message once, and of each turn only what is new."""

from collections.abc import Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

import msgspec

from proxy.conversation.edit import Edit, Plan, Replace, edits_of
from proxy.conversation.fingerprint import index_of
from proxy.conversation.lines import Notes
from proxy.conversation.model import Message, Reasoning, last_words
from proxy.conversation.pairing import Pair, paired
from proxy.dialects.base import View
from proxy.dialects.lens import standing_edits
from proxy.exchange.receive import Received
from proxy.pruning.results import Standing, edited, replacements, results_of
from proxy.tokens.estimate import Scale, Weight

_TOTAL, _REASONING = attrgetter("total"), attrgetter("reasoning")


class Size(NamedTuple):
    """What a tool result weighs as the client sent it. A tuple, since every request has hundreds of them."""

    tokens: int
    message: int
    part: int
    tool: str
    """`?` when nobody says."""


class Weighed(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request on the scale, before any plan."""

    weights: tuple[Weight, ...]
    """Of each message of the history, as the client sent it."""
    totals: tuple[int, ...]
    """The same in one number each."""
    reasoning: int
    """Of all reasoning in them."""
    system: int
    tools: int
    keys: tuple[bytes, ...]
    """The request's."""
    envelope: int
    """What the wire format adds around a result: that stays when the content is replaced."""
    sizes: tuple[tuple[Size, ...], ...]
    """Of the results of each message that the model sees."""
    scale: str
    """Name of the scale."""
    notes: Notes
    """Of the messages."""

    @property
    def total(self) -> int:
        """Of all messages together."""
        return sum(self.totals)

    @cached_property
    def index(self) -> dict[bytes, int]:
        """Prefix key → index of its message; most turns need none."""
        return index_of(self.keys)

    def contents(self, index: int) -> tuple[int, ...]:
        """Tokens of each part of message `index` without that envelope: what replacing a result's content can save."""
        return tuple([max(0, part - self.envelope) for part in self.weights[index].parts])

    def content(self, index: int, part: int) -> int:
        """The same of one part; 0 where there is none."""
        parts = self.weights[index].parts
        return max(0, parts[part] - self.envelope) if part < len(parts) else 0


def weigh(received: Received, scale: Scale, *, plain: bool = False, drops: bool = False) -> Weighed:
    """Weigh what the request carries; every message only once a process.

    `plain`: it is known to hold nothing but text and calls, so that results and reasoning are not looked for. `drops`: the
    provider takes out the reasoning of the turns before the user's last words, which then weighs nothing.
    """
    weighed = _as_sent(received, scale, plain=plain)
    if not drops or not weighed.reasoning:
        return weighed
    messages = received.conversation.messages
    begins = last_words(messages)
    weights = (
        *map(_without_reasoning, messages[: max(0, begins)], weighed.weights),
        *weighed.weights[max(0, begins) :],
    )
    return msgspec.structs.replace(
        weighed,
        weights=weights,
        totals=tuple(map(_TOTAL, weights)),
        reasoning=sum(map(_REASONING, weights)),
        # What is noted of its messages holds until the user speaks again.
        scale=f"{weighed.scale}/{begins}",
    )


def _without_reasoning(message: Message, weight: Weight) -> Weight:
    if not weight.reasoning:
        return weight
    parts = tuple(
        [0 if isinstance(part, Reasoning) else own for part, own in zip(message.parts, weight.parts, strict=True)]
    )
    return Weight(total=sum(parts) + weight.overhead, reasoning=0, parts=parts, overhead=weight.overhead)


def _as_sent(received: Received, scale: Scale, *, plain: bool) -> Weighed:
    view = received.view
    conversation, notes = view.conversation, view.notes
    weights = weights_of(view, scale)
    totals: tuple[int, ...] = notes.mapped(("totals", scale.name), _TOTAL, weights)
    reasoning: tuple[int, ...] = () if plain else notes.mapped(("reasoning", scale.name), _REASONING, weights)
    found = () if plain else pairs_of(view)
    return Weighed(
        weights=weights,
        totals=totals,
        reasoning=sum(reasoning),
        system=scale.weigh_messages(conversation.system),
        tools=scale.weigh_tools(conversation.tools),
        keys=received.keys,
        envelope=scale.overheads.result,
        sizes=_sizes(view, weights, found, scale) if any(found) else ((),) * len(weights),
        scale=scale.name,
        notes=notes,
    )


def _sizes(
    view: View, weights: Sequence[Weight], found: Sequence[tuple[Pair, ...]], scale: Scale
) -> tuple[tuple[Size, ...], ...]:
    return view.notes.mapped(("sizes", scale.name), lambda own: _sizes_in(own, weights), found)


def _sizes_in(found: Sequence[Pair], weights: Sequence[Weight]) -> tuple[Size, ...]:
    return tuple(
        Size(weights[pair.message].parts[pair.part], pair.message, pair.part, pair.tool or "?")
        for pair in found
        if not pair.result.to_code
    )


def weights_of(view: View, scale: Scale) -> tuple[Weight, ...]:
    """The weight of each message; those that the line's last request had are not even looked up."""
    return view.notes.mapped(("weights", scale.name), scale.weigh, view.conversation.messages)


def pairs_of(view: View) -> tuple[tuple[Pair, ...], ...]:
    """The results of each message with their calls; only new messages are looked at."""
    return view.notes.extended("pairs", partial(paired, view.conversation.messages))


def results_in(received: Received, weighed: Weighed, scale: Scale) -> tuple[tuple[Standing, ...], ...]:
    """The results of each message as the client sent them; only new messages are looked at."""
    view, keys = received.view, received.keys
    messages, found = view.conversation.messages, pairs_of(view)
    return view.notes.mapped(
        ("results", received.origin, scale.name),
        lambda own: results_of(own, messages, keys, weighed.contents),
        found,
    )


def replaced_in(notes: Notes, edits: tuple[Edit, ...]) -> dict[tuple[bytes, int], Replace]:
    """The replacements among a plan's edits, by message and part."""
    if not edits:
        return {}

    def make(
        known: dict[tuple[bytes, int], Replace] | None, new: tuple[Edit, ...]
    ) -> tuple[int, dict[tuple[bytes, int], Replace]]:
        return 0, (known or {}) | replacements(new)

    return notes.under("replaced", edits, make)


_Results = tuple[tuple[Standing, ...], ...]
"""Of leading messages."""


def results_under(received: Received, weighed: Weighed, scale: Scale, plan: Plan) -> tuple[tuple[Standing, ...], ...]:
    """The same as the plan's edits have left them; only what is new in it, and new messages, are looked at."""
    found, notes = results_in(received, weighed, scale), received.view.notes
    if not plan.edits:
        return found

    def leading(known: _Results | None, new: tuple[Edit, ...]) -> tuple[int, _Results]:
        reached = standing_edits(notes, weighed.keys, plan)[0]
        replaced = replaced_in(notes, plan.edits)
        kept = [*(known or ()), *found[len(known or ()) : reached]]
        # An edit more leaves the others as they are.
        for number in {weighed.index.get(edit.at, -1) for edit in edits_of(new, Replace)} - {-1}:
            kept[number] = edited(found[number], replaced)
        return reached, tuple(kept)

    known = notes.under(("edited", received.origin, scale.name), plan.edits, leading)
    return known + found[len(known) :]


def known_weights(view: View, scale: Scale) -> int:
    """The number of leading messages that `weights_of` need not look up."""
    return view.notes.known(("weights", scale.name))
