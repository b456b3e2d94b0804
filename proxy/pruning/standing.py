"""Tool results as they stand in the request after replay, and which of them pruning may replace."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from proxy.conversation.edit import Summarise, edits_of
from proxy.conversation.model import Message, ToolResult
from proxy.conversation.pairing import pairs
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.results import Made, Standing, edited, replacements, results_of
from proxy.pruning.situation import Situation


def first_open(situation: Situation) -> int:
    """Index behind the last summary, ours or the client's; what lies before it is settled."""
    ends = {edit.last for edit in edits_of(situation.plan.edits, Summarise)}
    if not ends:
        return situation.behind_marked
    ours = (index + 1 for index in range(len(situation.keys) - 1, -1, -1) if situation.keys[index] in ends)
    return max(situation.behind_marked, next(ours, 0))


def behind_marked(messages: Sequence[Message], known: Sequence[int] = ()) -> list[int]:
    """For each message the index behind the last one up to it that a client put in the place of an older history.

    `known`: the same of the first messages, which are left out.
    """
    found = []
    behind = known[-1] if known else 0
    for index in range(len(known), len(messages)):
        behind = index + 1 if messages[index].summary_marked else behind
        found.append(behind)
    return found


def standing_results(situation: Situation, since: int = 0) -> list[Standing]:
    """Every result behind the last summary and from message `since` on, in order.

    A result whose call stands before `since` counts as broken.
    """
    found = _found(situation, since)
    if not found:
        return []
    owed: dict[int, int] = {}
    for standing in found:
        owed[standing.call_message] = owed.get(standing.call_message, standing.calls) - 1
    if any(owed.values()):
        found = [one._replace(broken=True) if owed[one.call_message] else one for one in found]
    start = first_open(situation)
    return [standing for standing in found if standing.message >= start] if start else found


def _found(situation: Situation, since: int) -> list[Standing]:
    """The results from message `since` on, each as its edit has left it."""
    if situation.results:
        known = list(chain.from_iterable(situation.results[since:]))
        # Where all calls stand there, too, nothing in front of them has had a say in which result is whose.
        if not since or all(standing.call_message >= since for standing in known):
            return known
    messages = situation.messages[since:]
    behind = situation.keys[since:]
    found = results_of(pairs(messages), messages, behind, lambda index: situation.parts_tokens(since + index))
    found = edited(found, replacements(situation.plan.edits))
    return [standing._replace(message=since + standing.message) for standing in found] if since else list(found)


class Protection(NamedTuple):
    """Tokens of results that must stand behind a result before it may go."""

    least: float
    most: float
    """The same for those that `literal` picks."""
    literal: Callable[[Standing], bool] = lambda _: False


def old_enough(results: Sequence[Standing], protection: Protection, policy: PrunePolicy) -> list[Standing]:
    """The results that age no longer protects, in order.

    A result that a later call of the same tool with the same arguments supersedes is old at any age (`dedupe`). A
    result that a reference points to is as young as that reference.
    """
    least, most, literal = protection
    behind = 0
    old = set()
    for position in range(len(results) - 1, -1, -1):
        standing = results[position]
        behind += standing.tokens
        if behind > least and not (behind <= most and literal(standing)):
            old.add(position)
    if policy.dedupe:
        old |= _superseded(results)
    if not old:
        return []
    referred = {
        (standing.edit.of, standing.edit.of_part)
        for position, standing in enumerate(results)
        if standing.edit and standing.edit.of and position not in old
    }
    found = [results[position] for position in sorted(old)]
    return [standing for standing in found if (standing.key, standing.part) not in referred] if referred else found


def replaceable(
    old: Sequence[Standing], results: Sequence[Standing], situation: Situation, policy: PrunePolicy
) -> list[Standing]:
    """Those of the old results that the rules allow to be replaced; the price is not looked at yet."""
    newest = results[max(0, len(results) - policy.keep_recent_tool_results) :]
    kept = {(standing.message, standing.part) for standing in newest}
    limit = min(situation.seen, _user_turn(situation.messages, policy.protect_user_turns))
    return [
        standing
        for standing in old
        if standing.message < limit
        and not (standing.gone or standing.broken or standing.result.is_error or standing.result.fixed)
        and (len(standing.text) > policy.min_chars or standing.result.media)
        and (standing.message, standing.part) not in kept
        and not is_protected(standing.tool, policy.protected_tools)
    ]


_MADE = attrgetter("made")


def _superseded(results: Sequence[Standing]) -> set[int]:
    """Positions of results whose call was made again later, with a result that stands whole."""
    # Orphans look alike, and are told apart below.
    if len(set(map(_MADE, results))) == len(results):
        return set()
    later: set[Made] = set()
    found = set()
    for position in range(len(results) - 1, -1, -1):
        standing = results[position]
        if standing.made is None:
            continue
        if standing.made in later:
            found.add(position)
        elif standing.edit is None and not standing.result.is_error:
            later.add(standing.made)
    return found


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
