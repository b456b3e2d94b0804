"""Tool results as they stand in the request after replay."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain

from proxy.conversation.edit import Summarise, edits_of
from proxy.conversation.model import Message
from proxy.conversation.pairing import paired, pairs
from proxy.pruning.results import Standing, edited, replacements, results_of
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
    known = list(chain.from_iterable(results_by_message(situation)[since:]))
    # Where all calls stand there, too, nothing in front of them has had a say in which result is whose.
    if not since or all(standing.call_message >= since for standing in known):
        return known
    messages, behind = situation.messages[since:], situation.keys[since:]
    found = results_of(pairs(messages), messages, behind, lambda index: situation.parts_tokens(since + index))
    found = edited(found, replacements(situation.plan.edits))
    return [standing._replace(message=since + standing.message) for standing in found]


def results_by_message(situation: Situation) -> Sequence[tuple[Standing, ...]]:
    """The results of each message, each as its edit has left it; whether its turn is whole is not looked at."""
    if situation.results or not situation.messages:
        return situation.results
    messages, keys, replaced = situation.messages, situation.keys, replacements(situation.plan.edits)
    return [
        edited(results_of(own, messages, keys, situation.parts_tokens), replaced) if own else ()
        for own in paired(messages)
    ]


@lru_cache(maxsize=4096)
def is_protected(tool: str, patterns: tuple[str, ...]) -> bool:
    """Whether a tool is on the list; case, `_` and `-` do not count."""
    name = _plain(tool)
    return any(fnmatchcase(name, _plain(pattern)) for pattern in patterns)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
