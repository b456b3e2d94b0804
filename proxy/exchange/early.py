"""Early compaction: old steps become a short record, made without a model, where the price formula says that it pays.

Each record stands for the steps behind the one before it, so that earlier ones stay in the prompt cache as they are. It is
weighed as a batch of pruning is (pruning.worth): by what is written anew at once and what is saved at every later call,
and it may never cost more than the purse holds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from proxy.compaction.policy import CompactPolicy
from proxy.compaction.span import words as said_in
from proxy.compaction.steps import in_short, with_names
from proxy.conversation.edit import Edit, Insert, Plan, Summarise
from proxy.conversation.fingerprint import index_of
from proxy.conversation.model import Media, Message, Opaque, Text, ToolCall, ToolResult
from proxy.conversation.pairing import cut_positions
from proxy.conversation.steps import STEP_CHARS, Steps, Stepwise
from proxy.pruning.gate import bound_until
from proxy.pruning.identifiers import best_of, words, words_of_json
from proxy.pruning.policy import PROTECTED_TOOLS
from proxy.pruning.reading import shows_failure
from proxy.pruning.situation import Situation, sent_before, stays_cached
from proxy.pruning.standing import first_open, is_protected
from proxy.pruning.worth import cached_behind, doubtful_share, ratios, stake_of, turns_left
from proxy.tokens.pieces import counted

_LEAST_TOKENS = 4_000
"""What a record must take out, scaled down for windows under 100,000 tokens: for less nothing is worth being forgotten."""
_LEAST_SHARE = 0.04
_TAIL_SHARE = 0.2
_NAMES_SHARE = 0.12
"""Of the steps as the client sent them: what the names in their record may take."""
_ABOUT = 0.15
"""Of the steps as the client sent them: about what a record of them takes, before it is written."""
_FIRST_SHARE = 0.05
"""Of the window: a first message up to this size stays as it is."""
_USUAL_WINDOW = 200_000
_ENVELOPE = 4


@Stepwise
def early_record(
    situation: Situation, policy: CompactPolicy, protected_tools: tuple[str, ...] = PROTECTED_TOOLS
) -> Steps[Summarise | None]:
    """The record that pays now, if there is one. `protected_tools`: whose results are told in it."""
    if not policy.early or policy.trigger == "off":
        return None
    span = _span(situation, policy)
    if span is None:
        return None
    first, end = span
    whole = sum(sum(situation.parts_tokens(index)) for index in range(first, end))
    behind = cached_behind(situation)(first)
    if not _pays(situation, span, behind, int(_ABOUT * whole)):
        return None
    text = yield from _written(situation, first, end, int(_NAMES_SHARE * whole), protected_tools)
    after = (yield from counted(text, situation.count)) + _ENVELOPE
    if not _pays(situation, span, behind, after):
        return None
    return Summarise(
        first=situation.keys[first],
        last=situation.keys[end - 1],
        text=text,
        reason="older steps in short, written without a model",
        tokens_before=sum(situation.message_tokens[first:end]),
        tokens_after=after,
        by_model=False,
        decided=len(situation.messages),
    )


def absorbed(plan: Plan, summary: Summarise, index: Mapping[bytes, int]) -> Plan:
    """The plan with a new summary in it, without the edits that it swallows.

    What a person queued stays, unwritten: nothing else knows its words when the span is summarised anew.
    """
    if summary.first not in index or summary.last not in index:
        return plan
    covered = range(index[summary.first], index[summary.last] + 1)

    def is_inside(edit: Edit) -> bool:
        match edit:
            case Summarise():
                return index[edit.first] in covered and index[edit.last] in covered
            case Insert():
                return False
            case _:
                return index[edit.at] in covered

    return Plan((*(edit for edit in plan.edits if not is_inside(edit)), summary))


def _pays(situation: Situation, span: tuple[int, int], behind: int, after: int) -> bool:
    """`behind`: cached tokens that are lost when the span's first message changes. `after`: tokens of the record."""
    read, write = ratios(situation)
    removed = sum(situation.message_tokens[span[0] : span[1]]) - after
    if removed < min(_LEAST_TOKENS, _LEAST_SHARE * (situation.window or _USUAL_WINDOW)):
        return False
    if not stays_cached(situation, removed):
        return False
    cost = write * (behind - removed) - read * behind
    if read * removed * turns_left(situation) <= cost:
        return False
    risk = cost + doubtful_share(situation) * behind
    return risk <= 0 or risk <= stake_of(situation)


def _span(situation: Situation, policy: CompactPolicy) -> tuple[int, int] | None:
    """First message of the steps and the one behind them; None where too little stands between records and tail."""
    messages, tokens = situation.messages, situation.message_tokens
    window = situation.window or _USUAL_WINDOW
    tail = min(policy.early_tail_tokens, _TAIL_SHARE * window)
    first = first_open(situation)
    least = min(_LEAST_TOKENS, _LEAST_SHARE * window)
    if sum(tokens[first:]) < tail + least:
        return None
    if not first and messages[0].role == "user" and tokens[0] <= _FIRST_SHARE * window:
        first = 1
    end = len(messages)
    while end > first and tokens[end - 1] <= tail:
        tail -= tokens[end - 1]
        end -= 1
    end = min(end, sent_before(situation), len(messages) - policy.keep_recent_messages)
    bound = bound_until(situation.model, messages) if situation.bound is None else situation.bound
    first = max(first, bound, *(index + 1 for index in range(first, end) if _must_stay(messages[index])))
    if end <= first:
        return None
    cuts = [cut for cut in cut_positions(messages, first) if cut <= end]
    return (cuts[0], cuts[-1]) if cuts and cuts[-1] > cuts[0] else None


def _must_stay(message: Message) -> bool:
    """Instructions, attachments, and what we cannot read."""
    return message.role == "system" or any(isinstance(part, Media | Opaque) for part in message.parts)


def _written(
    situation: Situation, first: int, end: int, room_tokens: int, protected_tools: tuple[str, ...]
) -> Steps[str]:
    messages, index = situation.messages, index_of(situation.keys)
    steps = messages[first:end]
    found = yield from _read(steps)
    asked = max((number for number, message in enumerate(messages) if _asks(message)), default=-1)
    text = in_short(
        steps,
        newest=asked - first,
        failed=lambda result: result.is_error or shows_failure(result.text),
        whole=lambda tool: is_protected(tool, protected_tools),
        said=[
            (index[edit.after] - first, edit.text)
            for edit in situation.plan.edits
            if isinstance(edit, Insert) and edit.after in index
        ],
    )
    known = set(words(text))
    hidden: set[int] = set(range(first, end))
    for edit in situation.plan.edits:
        if isinstance(edit, Summarise) and edit.last in index:
            hidden.update(range(index[edit.first], index[edit.last] + 1))
            known.update(words(edit.text))
    for number, message in enumerate(messages):
        if number not in hidden:
            known.update(_names(message, results=False))
    names = yield from best_of.steps(found, situation.count, room_tokens, known)
    return with_names(text, names)


def _read(steps: Sequence[Message]) -> Steps[Counter[str]]:
    """The identifiers of these messages. Which of their results show a failure is asked, too, and remembered."""
    found: Counter[str] = Counter()
    read = 0
    for message in steps:
        found.update(_names(message, results=True))
        for part in message.parts:
            if isinstance(part, ToolResult):
                shows_failure(part.text)
                read += len(part.text)
        if read > STEP_CHARS:
            read = 0
            yield
    return found


def _asks(message: Message) -> bool:
    return message.role == "user" and bool(said_in(message))


def _names(message: Message, *, results: bool) -> Counter[str]:
    """The identifiers of a message; of results only where asked: pruning will take those away."""
    found: Counter[str] = Counter()
    for part in message.parts:
        match part:
            case Text():
                found.update(words(part.text))
            case ToolCall():
                found.update(words_of_json(part.arguments))
            case ToolResult() if results:
                found.update(words(part.text))
            case _:
                pass
    return found
