"""Tool results as they stand in the request after replay, and which of them pruning may replace."""

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import orjson

from proxy.conversation.edit import Plan, Replace, Summarise
from proxy.conversation.model import Message, ToolCall, ToolResult
from proxy.conversation.pairing import pairs
from proxy.conversation.recall import by_hash
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.situation import Situation


class Standing(NamedTuple):
    """One tool result of the request. A tuple, since every request makes hundreds of them."""

    message: int
    part: int
    key: bytes
    """Prefix key of its message."""
    result: ToolResult
    call: ToolCall | None
    tokens: int
    """Estimated tokens of what stands there now."""
    edit: Replace | None = None
    """The newest inherited edit of this result."""
    broken: bool = False
    """Its turn has a call without a result or a result without a call."""

    @property
    def tool(self) -> str:
        """The tool's name; empty when nobody says."""
        return self.call.name if self.call else self.result.name

    @property
    def gone(self) -> bool:
        """Already replaced by a placeholder: never touched again. What was shortened may still go."""
        return self.edit is not None and self.edit.kind == "clear"

    @property
    def text(self) -> str:
        """The text that stands there now."""
        return self.edit.text if self.edit else self.result.text


def first_open(messages: Sequence[Message], keys: Sequence[bytes], plan: Plan) -> int:
    """Index behind the last summary, ours or the client's; what lies before it is settled."""
    ends = {edit.last for edit in plan.edits if isinstance(edit, Summarise)}
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].summary_marked or (ends and keys[index] in ends):
            return index + 1
    return 0


def standing_results(situation: Situation, since: int = 0) -> list[Standing]:
    """Every result behind the last summary and from message `since` on, in order.

    A result whose call stands before `since` counts as broken.
    """
    messages, keys, tokens = situation.messages, situation.keys, situation.parts_tokens
    start = max(since, first_open(messages, keys, situation.plan))
    edits = {(edit.at, edit.part): edit for edit in situation.plan.edits if isinstance(edit, Replace)}
    if situation.pairs and not since:
        found = [pair for some in situation.pairs for pair in some]
    else:
        found = pairs(messages[since:])
    if not found:
        return []
    answers = Counter([pair.call_message for pair in found])
    broken = {at for at, number in answers.items() if at < 0 or number != _calls(messages[at + since])}
    results = []
    for message, part, result, call, call_message in found:
        index = message + since
        if index < start:
            continue
        key = keys[index]
        edit = edits.get((key, part)) if edits else None
        now = tokens(index)[part] if edit is None else edit.tokens_after
        results.append(Standing(index, part, key, result, call, now, edit, call_message in broken))
    return results


def _calls(message: Message) -> int:
    return sum([isinstance(part, ToolCall) for part in message.parts])


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


def old_enough(
    results: Sequence[Standing], allowed: Sequence[Standing], protect: Callable[[Standing], float], policy: PrunePolicy
) -> list[Standing]:
    """The allowed results behind which, their own included, more than `protect` tokens of results stand.

    A result that a later call of the same tool with the same arguments supersedes is old at any age (`dedupe`). A
    result that a reference points to is as young as that reference.
    """
    passed = 0
    old = set()
    for standing in reversed(results):
        passed += standing.tokens
        if passed > protect(standing):
            old.add((standing.message, standing.part))
    if policy.dedupe:
        old |= _superseded(results)
    referred = {
        (standing.edit.of, standing.edit.of_part)
        for standing in results
        if standing.edit and standing.edit.of and (standing.message, standing.part) not in old
    }
    return [
        standing
        for standing in allowed
        if (standing.message, standing.part) in old and (standing.key, standing.part) not in referred
    ]


def _superseded(results: Sequence[Standing]) -> set[tuple[int, int]]:
    """Results whose call was made again later, with a result that stands whole."""
    later: set[tuple[str, bytes]] = set()
    found = set()
    for standing in reversed(results):
        if standing.call is None:
            continue
        same = (standing.tool, _canonical(standing.call.arguments))
        if same in later:
            found.add((standing.message, standing.part))
        elif standing.edit is None and not standing.result.is_error:
            later.add(same)
    return found


@by_hash(most=16_384)
def _canonical(arguments: str) -> bytes:
    """16 bytes for arguments without the order of their keys; for those as they are when they are not JSON."""
    try:
        canonical = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONDecodeError:
        canonical = arguments.encode("utf-8", "surrogatepass")
    return blake2b(canonical, digest_size=16).digest()


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
