"""Which earlier reasoning is left out of a request, and which answers come back without what they must carry.

Both are decided from what stands in the request, never from a setting alone. Reasoning goes whole or not at all: all
of a message's, never of the turn that is still open (since the user's last words), never where the provider demands or
keeps it, never so that a message becomes empty, and never in front of signed reasoning that stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import msgspec

from proxy.conversation.edit import EMPTY_PLAN, Plan, StripReasoning, Summarise
from proxy.conversation.fingerprint import index_of
from proxy.conversation.model import Message, Reasoning, Text, ToolCall, last_words, says
from proxy.pruning.gate import bound_until
from proxy.pruning.reasoning_rules import OPTIONAL, Demand, ReasoningRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPolicy:
    """What the settings want, and what the provider wants."""

    strip: Literal["none", "all_but_last", "all"] = "none"
    restore: Literal["demanded"] | bool = "demanded"
    """True: wherever the ledger has it. False: never, and none is kept."""
    rule: ReasoningRule = OPTIONAL
    drop_bound: bool = False
    """Older messages may change in front of signed reasoning where the provider can be asked to drop it."""


LEAVE_REASONING = ReasoningPolicy()
"""Nothing is stripped, and nobody is known to demand anything."""


def strips(policy: ReasoningPolicy) -> bool:
    """Whether any reasoning may have to go."""
    return policy.rule.refuses or (policy.strip != "none" and not policy.rule.keeps)


def strip_edits(
    messages: Sequence[Message],
    keys: Sequence[bytes],
    reasoning_tokens: Callable[[int], int],
    policy: ReasoningPolicy,
    *,
    model: str = "",
    plan: Plan = EMPTY_PLAN,
    alone: bool = False,
) -> tuple[StripReasoning, ...]:
    """The edits that take reasoning out, oldest first.

    `reasoning_tokens`: of message i, as the client sent it. `plan`: what is decided already. `alone`: reasoning is a
    message of its own here (Responses), so one that holds nothing else goes as a whole.
    """
    if not strips(policy):
        return ()
    everything = policy.rule.refuses
    reasons = [any(isinstance(part, Reasoning) for part in message.parts) for message in messages]
    settled = _settled(plan, index_of(keys))
    turns = [range(len(messages))] if everything else _closed_turns(messages, reasons, policy.strip)
    chosen: list[int] = []
    for turn in turns:
        open_ones = [number for number in turn if reasons[number] and number not in settled]
        free = [number for number in open_ones if _may_go(messages, number, policy.rule.demands, alone=alone)]
        run_is_signed = any(_is_signed(messages[number]) for number in open_ones)
        if everything or not run_is_signed or len(free) == len(open_ones):
            chosen += free
    if not everything:
        gone = {*chosen, *settled}
        left = [bare(message) if number in gone else message for number, message in enumerate(messages)]
        bound = bound_until(model, left, binds=policy.rule.binds)
        chosen = [number for number in chosen if number >= bound]
    return tuple(StripReasoning(at=keys[number], tokens_before=reasoning_tokens(number)) for number in chosen)


def brings_reasoning(messages: Sequence[Message], run: range, rule: ReasoningRule) -> bool:
    """Whether the answer that these messages are came back with its reasoning, or with its signature where that counts."""
    parts = [part for number in run for part in messages[number].parts]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if any(call.signed for call in calls[:1]):
        return True
    return not rule.signatures and any(isinstance(part, Reasoning) for part in parts)


def is_demanded(messages: Sequence[Message], run: range, demands: Demand) -> bool:
    """Whether the provider refuses the request when the answer that these messages are has no reasoning.

    Where it demands it of named ones, as if they were.
    """
    match demands:
        case "":
            return False
        case "all" | "named":
            return True
        case "calls" | "open_calls":
            calls = any(isinstance(part, ToolCall) for number in run for part in messages[number].parts)
            return calls and (demands == "calls" or run.start > last_words(messages))


def _closed_turns(messages: Sequence[Message], reasons: Sequence[bool], strip: str) -> list[range]:
    """The turns that a user has answered; without the last one with reasoning where that is to stay."""
    starts = {index for index, message in enumerate(messages) if says(message)}
    if not starts:
        return []
    turns = [range(start, end) for start, end in pairwise(sorted({0, *starts, len(messages)}))]
    if strip == "all_but_last":
        while turns and not any(reasons[number] for number in turns[-1]):
            turns.pop()
    return turns[:-1]


def _settled(plan: Plan, index: dict[bytes, int]) -> set[int]:
    """Messages whose reasoning is out already, by itself or with a summarised span."""
    found: set[int] = set()
    for edit in plan.edits:
        if isinstance(edit, StripReasoning) and edit.at in index:
            found.add(index[edit.at])
        elif isinstance(edit, Summarise) and edit.first in index and edit.last in index:
            found.update(range(index[edit.first], index[edit.last] + 1))
    return found


def _may_go(messages: Sequence[Message], number: int, demands: Demand, *, alone: bool) -> bool:
    """Whether the message may lose its reasoning: something must be left of it, and nobody may demand it."""
    message = messages[number]
    rest = [part for part in message.parts if not isinstance(part, Reasoning)]
    says = any(not isinstance(part, Text) or part.text.strip() for part in rest)
    if not says and not (alone and not rest and number > 0):
        return False
    if demands == "calls" and alone:
        # Reasoning that is a message of its own belongs to the call behind it.
        after = messages[number + 1 : number + 2]
        return not any(isinstance(part, ToolCall) for one in after for part in one.parts)
    return not is_demanded(messages, range(number, number + 1), demands)


def _is_signed(message: Message) -> bool:
    return any(isinstance(part, Reasoning) and part.signed for part in message.parts)


def bare(message: Message) -> Message:
    """The message without its reasoning."""
    return msgspec.structs.replace(
        message, parts=tuple(part for part in message.parts if not isinstance(part, Reasoning))
    )
