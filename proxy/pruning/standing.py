"""Tool results as they stand in the request after replay, and which of them pruning may replace."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from proxy.conversation.edit import Plan, Replace, Summarise
from proxy.conversation.model import Message, ToolCall, ToolResult
from proxy.conversation.pairing import Pair, pairs
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One tool result of the request."""

    message: int
    part: int
    result: ToolResult
    call: ToolCall | None
    tool: str
    tokens: int
    """Estimated tokens of what stands there now."""
    edit: Replace | None = None
    """The newest inherited edit of this result."""
    broken: bool = False
    """Its turn has a call without a result or a result without a call."""

    @property
    def gone(self) -> bool:
        """Already replaced by a placeholder or a reference: never touched again."""
        return self.edit is not None and self.edit.kind in ("clear", "repeat", "delta")

    @property
    def text(self) -> str:
        """The text that stands there now."""
        return self.edit.text if self.edit else self.result.text


def first_open(messages: Sequence[Message], keys: Sequence[bytes], plan: Plan) -> int:
    """Index behind the last summary, ours or the client's; what lies before it is settled."""
    ends = {edit.last for edit in plan.edits if isinstance(edit, Summarise)}
    for index in range(len(messages) - 1, -1, -1):
        if keys[index] in ends or messages[index].summary_marked:
            return index + 1
    return 0


def standing_results(situation: Situation) -> list[Standing]:
    """Every result behind the last summary, in order."""
    start = first_open(situation.messages, situation.keys, situation.plan)
    newest = {(edit.at, edit.part): edit for edit in situation.plan.edits if isinstance(edit, Replace)}
    found = pairs(situation.messages)
    broken = _broken_calls(situation.messages, found)
    results = []
    for pair in found:
        if pair.message < start:
            continue
        edit = newest.get((situation.keys[pair.message], pair.part))
        results.append(
            Standing(
                message=pair.message,
                part=pair.part,
                result=pair.result,
                call=pair.call,
                tool=pair.tool,
                tokens=edit.tokens_after if edit else situation.parts_tokens(pair.message)[pair.part],
                edit=edit,
                broken=pair.call is None or pair.call_message in broken,
            )
        )
    return results


def _broken_calls(messages: Sequence[Message], found: Sequence[Pair]) -> set[int]:
    """Messages whose calls do not have exactly one result each; such turns are left alone."""
    answers: dict[int, int] = {}
    for pair in found:
        answers[pair.call_message] = answers.get(pair.call_message, 0) + 1
    return {
        index
        for index, message in enumerate(messages)
        if (calls := sum(isinstance(part, ToolCall) for part in message.parts)) and answers.get(index, 0) != calls
    }


def replaceable(results: Sequence[Standing], situation: Situation, policy: PrunePolicy) -> list[Standing]:
    """The results that the rules allow to be replaced, oldest first; age and price are not looked at yet."""
    kept = len(results) - policy.keep_recent_tool_results
    limit = min(situation.seen, _user_turn(situation.messages, policy.protect_user_turns))
    return [
        standing
        for position, standing in enumerate(results)
        if position < kept
        and standing.message < limit
        and not (standing.gone or standing.broken or standing.result.is_error or standing.result.fixed)
        and (len(standing.text) > policy.min_chars or standing.result.media)
        and not is_protected(standing.tool, policy.protected_tools)
    ]


def _user_turn(messages: Sequence[Message], turns: int) -> int:
    """Index of the n-th last user message that holds a person's words; the end for 0."""
    limit = len(messages)
    if turns:
        asked = [index for index, message in enumerate(messages) if message.role == "user" and not _results(message)]
        limit = asked[-turns] if len(asked) >= turns else 0
    return limit


def _results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


@lru_cache(maxsize=4096)
def is_protected(tool: str, patterns: tuple[str, ...]) -> bool:
    """Whether a tool is on the list; case, `_` and `-` do not count."""
    name = _plain(tool)
    return any(fnmatchcase(name, _plain(pattern)) for pattern in patterns)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
