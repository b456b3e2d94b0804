"""What stands or falls together: a tool call and its results."""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.conversation.model import Message, ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A tool result with the call it answers."""

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


def pairs(messages: Sequence[Message]) -> list[Pair]:
    """Every tool result in order, with its call. Ids may be reused: the nearest earlier call of that id counts."""
    calls: dict[str, tuple[int, ToolCall]] = {}
    by_name: dict[str, tuple[int, ToolCall]] = {}
    found = []
    for index, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                calls[part.call_id] = by_name[part.name] = (index, part)
            elif isinstance(part, ToolResult):
                at, call = calls.get(part.call_id) or by_name.get(part.name) or (-1, None)
                found.append(Pair(message=index, part=position, result=part, call=call, call_message=at))
    return found


def is_cut(messages: Sequence[Message], at: int) -> bool:
    """Whether a cut before message `at` would part a call from one of its results."""
    return any(pair.call_message < at <= pair.message for pair in pairs(messages) if pair.call_message >= 0)


def cut_positions(messages: Sequence[Message]) -> list[int]:
    """All indices before which the history can be cut without parting a call from a result, in order."""
    closed = [True] * (len(messages) + 1)
    for pair in pairs(messages):
        if pair.call_message >= 0:
            closed[pair.call_message + 1 : pair.message + 1] = [False] * (pair.message - pair.call_message)
    return [index for index, whole in enumerate(closed) if whole]
