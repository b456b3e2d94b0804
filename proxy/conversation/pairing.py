"""What stands or falls together: a tool call and its results, reasoning and what it led to."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from proxy.conversation.model import Message, Reasoning, ToolCall, ToolResult


class Pair(NamedTuple):
    """A tool result with the call it answers. A tuple, since every request makes hundreds of them."""

    message: int
    """Index of the message that holds the result."""
    part: int
    """Index of the result among that message's parts."""
    result: ToolResult
    call: ToolCall | None
    """None for an orphan; such turns are left alone."""
    call_message: int
    """Index of the message that holds the call; -1 for an orphan."""

    @property
    def tool(self) -> str:
        """The tool's name, from the call or from the result itself; empty when nobody says."""
        return self.call.name if self.call else self.result.name


_Placed = tuple[int, ToolCall]
"""A call and the index of its message."""


def pairs(messages: Sequence[Message]) -> list[Pair]:
    """Every tool result in order, with its call.

    Ids may be reused: the nearest earlier call of that id counts. Where there are none (Gemini, the old functions), the
    calls of one name are answered in their order.
    """
    return [pair for some in _paired(messages) for pair in some]


def paired(messages: Sequence[Message], known: Sequence[tuple[Pair, ...]] = ()) -> list[tuple[Pair, ...]]:
    """The pairs of each message. `known`: those of the first messages, which are left out."""
    found = []
    for index in range(len(known), len(messages)):
        own = []
        for position, part in enumerate(messages[index].parts):
            if isinstance(part, ToolResult):
                placed = _nearest(messages, index, position, part.call_id)
                if placed is None:
                    # Without an id it counts how many calls before are answered already.
                    return _paired(messages)[len(known) :]
                own.append(Pair(index, position, part, placed[1], placed[0]))
        found.append(tuple(own))
    return found


def _paired(messages: Sequence[Message]) -> list[tuple[Pair, ...]]:
    by_id: dict[str, _Placed] = {}
    by_name: dict[str, _Placed] = {}
    waiting: list[_Placed] = []
    found = []
    for index, message in enumerate(messages):
        own = []
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                by_name[part.name] = (index, part)
                if part.call_id:
                    by_id[part.call_id] = (index, part)
                else:
                    waiting.append((index, part))
            elif isinstance(part, ToolResult):
                placed = by_id.get(part.call_id) or _next_waiting(waiting, part)
                if placed is None and not part.call_id:
                    placed = by_name.get(part.name)
                at, call = placed or (-1, None)
                own.append(Pair(index, position, part, call, at))
        found.append(tuple(own))
    return found


def _nearest(messages: Sequence[Message], index: int, position: int, call_id: str) -> _Placed | None:
    """The nearest call of this id in front of a part."""
    if not call_id:
        return None
    for at in range(index, -1, -1):
        parts = messages[at].parts
        for part in reversed(parts[:position] if at == index else parts):
            if isinstance(part, ToolCall) and part.call_id == call_id:
                return at, part
    return None


def _next_waiting(waiting: list[_Placed], result: ToolResult) -> _Placed | None:
    """Takes the first call without an id that this result can answer."""
    for number, (_, call) in enumerate(waiting):
        if call.name == result.name or not (result.name or result.call_id):
            return waiting.pop(number)
    return None


def cut_positions(messages: Sequence[Message], since: int = 0) -> list[int]:
    """All indices from `since` on before which the history can be cut, in order. What stands far in front is not looked at.

    A call is never parted from its result nor from the calls that its code makes, nor reasoning that is an element of its own
    (Responses) from what follows, up to the answer's end: providers refuse the one without the other. Nor is a system message
    inside the history parted from what follows: Anthropic takes no message of the user behind it (400 "role 'system' must
    precede an 'assistant' message or end the array").
    """
    closed = [True] * (len(messages) + 1)
    found = chain.from_iterable(paired(messages, ((),) * since))
    answered = ((pair.call_message, pair.message) for pair in found if pair.call_message >= 0)
    for first, last in chain(answered, _by_code(messages, since)):
        closed[first + 1 : last + 1] = [False] * (last - first)
    start = max(0, since - 1)
    while start and messages[start].role == "assistant":
        start -= 1
    led = False
    for index in range(start, len(messages) - 1):
        leads = _leads(messages[index])
        led = leads or (led and messages[index].role == "assistant")
        # Of an answer of text and a call, both want the reasoning in front of them.
        if leads or messages[index].role == "system" or (led and messages[index + 1].role == "assistant"):
            closed[index + 1] = False
    return [index for index in range(since, len(closed)) if closed[index]]


def _by_code(messages: Sequence[Message], since: int) -> Iterator[tuple[int, int]]:
    """For each call that code made from message `since` on, the message in which that code began to run, and the call's own."""
    # Hardly any are.
    if not any(isinstance(part, ToolCall) and part.caller for message in messages[since:] for part in message.parts):
        return
    running: dict[str, int] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                if part.caller in running:
                    yield running[part.caller], index
                if part.call_id:
                    running[part.call_id] = index


def _leads(message: Message) -> bool:
    """Whether this is reasoning alone."""
    return bool(message.parts) and all(isinstance(part, Reasoning) for part in message.parts)
