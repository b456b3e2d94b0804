"""What a request weighs under a plan, and the unified formula fed from memory."""

from collections.abc import Sequence
from functools import partial

import msgspec

from proxy.conversation.edit import (
    Edit,
    Plan,
    Replace,
    RestoreReasoning,
    StripReasoning,
    Summarise,
    edits_of,
    first_of,
    saved_tokens,
)
from proxy.conversation.fingerprint import reply_print
from proxy.conversation.model import Media, Message, Reasoning, ToolResult
from proxy.dialects.lens import standing_edits, written_summaries
from proxy.exchange.receive import Memory, Received
from proxy.exchange.spent import left_reasoning, spent_reasoning, swallowed_reasoning
from proxy.exchange.weigh import Size, Weighed, replaced_in
from proxy.ledger.records import Anchor
from proxy.pruning.results import replacements
from proxy.tokens.context import Last, Present
from proxy.tokens.estimate import Scale
from proxy.tokens.fit import Growth
from proxy.tokens.learn import Learned, first_tokens, predict

_ABOUT_REASONING = frozenset({StripReasoning, RestoreReasoning, Summarise})


def standing_tokens(weighed: Weighed, plan: Plan) -> list[int]:
    """Tokens of each message as it goes out under the plan; a summary's stand at the first message it covers."""
    totals = weighed.totals
    if not plan.edits:
        return list(totals)
    leading = weighed.notes.under(("tokens", weighed.scale), plan.edits, partial(_leading_tokens, weighed, plan))
    return [*leading, *totals[len(leading) :]]


def _leading_tokens(
    weighed: Weighed, plan: Plan, known: list[int] | None, new: tuple[Edit, ...]
) -> tuple[int, list[int]]:
    """The number of messages that the plan is about, and the tokens of each as it goes out.

    `known`: the same without the edits that are `new`.
    """
    index = weighed.index
    reached, edits = standing_edits(weighed.notes, weighed.keys, plan)
    summaries = written_summaries(edits, index)
    hidden = {number for start, end, _ in summaries for number in range(start, end + 1)}
    if known is None or Summarise in set(map(type, new)):
        known, new = [], plan.edits
    tokens = [*known, *weighed.totals[len(known) : reached]]
    for number in hidden:
        tokens[number] = 0
    for start, _, summary in summaries:
        tokens[start] = summary.tokens_after
    before = replaced_in(weighed.notes, plan.edits[: len(plan.edits) - len(new)])
    for (at, part), replaced in replacements(new).items():
        number = index.get(at, -1)
        if number >= 0 and number not in hidden:
            earlier = before.get((at, part))
            stood = weighed.content(number, part) if earlier is None else earlier.tokens_after
            tokens[number] += replaced.tokens_after - stood
    for edit in new:
        if not isinstance(edit, (Replace, Summarise)):
            number = index.get(first_of(edit), -1)
            if number >= 0 and number not in hidden:
                tokens[number] -= saved_tokens(edit)
    return reached, tokens


def standing_reasoning(weighed: Weighed, plan: Plan) -> int:
    """Tokens of the reasoning that goes out under the plan."""
    if _ABOUT_REASONING.isdisjoint(map(type, plan.edits)):
        return weighed.reasoning
    index = weighed.index
    _, edits = standing_edits(weighed.notes, weighed.keys, plan)
    tokens = [weight.reasoning for weight in weighed.weights]
    for edit in edits:
        match edit:
            case StripReasoning():
                tokens[index[edit.at]] = 0
            case RestoreReasoning():
                tokens[index[edit.at]] += edit.tokens_after
            case _:
                pass
    for start, end, _ in written_summaries(edits, index):
        tokens[start : end + 1] = [0] * (end + 1 - start)
    return sum(tokens)


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the unified formula is fed with, and what the call can teach."""

    present: Present
    last: Last | None
    growth: Growth
    """What had to be estimated, before what was learned corrected it."""
    has_media: bool = False
    """Among what had to be estimated."""
    edited: bool = False
    """Edits newer than the anchor changed the anchored part."""
    spent: int = 0
    """Tokens of reasoning whose turn has ended since the anchor (exchange.spent)."""


def formula_inputs(
    received: Received,
    memory: Memory,
    weighed: Weighed,
    plan: Plan,
    now: Sequence[int],
    scale: Scale,
    learned: Learned,
    *,
    drops: bool = False,
) -> Inputs:
    """`now`: `standing_tokens` under `plan`, the plan that is to be sent. `drops`: see `exchange.spent`."""
    messages, anchor = received.conversation.messages, memory.measured
    if anchor is None or anchor.usage is None:
        return _first_inputs(messages, weighed, plan, now, scale, learned)
    if compacted_since(plan, memory):
        sealed = left_reasoning(received, memory, _taken(weighed, plan), drops=drops)
        return _first_inputs(messages, weighed, plan, now, scale, learned, sealed=sealed)
    usage = anchor.usage
    start, run, reply, growth = _growth(received, memory, anchor, weighed, now, scale)
    drift = _drift(weighed, plan, memory, now)
    told = start if reply is not None else run.start
    taken = _taken(weighed, plan)
    spent = spent_reasoning(received, memory, told, scale, learned.factor, taken)
    gone = spent if drops else 0
    if newly := taken - _taken(weighed, memory.measured_plan):
        gone += swallowed_reasoning(received, memory, newly, drops=drops)
    last = Last(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        reasoning_tokens=usage.reasoning_tokens or 0,
        share=reply or 0.0,
        reply_sent=reply is not None,
        reasoning_sent=_carries_reasoning(received, run, plan),
        system=_scaled(anchor.system_tokens, learned),
        tools=_scaled(anchor.tools_tokens, learned),
        removed=_scaled(max(0, -drift), learned) + gone,
        added=_scaled(max(0, drift), learned),
    )
    present = Present(
        system=_scaled(weighed.system, learned),
        tools=_scaled(weighed.tools, learned),
        new=predict(learned, growth).tokens,
        reasoning=standing_reasoning(weighed, plan),
        reasoning_raw=weighed.reasoning,
        unmeasured=reply is None and len(run) > 0,
        least=_least(weighed, now, learned) if drift < 0 or gone else 0,
    )
    media = _has_media(messages[start:])
    return Inputs(present=present, last=last, growth=growth, has_media=media, edited=drift != 0, spent=spent)


def _growth(
    received: Received, memory: Memory, anchor: Anchor, weighed: Weighed, now: Sequence[int], scale: Scale
) -> tuple[int, range, float | None, Growth]:
    """Where the new messages begin, the answer in front of them, the share of the anchor's output that it is, and what is new."""
    messages = received.conversation.messages
    start = reply_end(messages, memory.measured_at)
    run = range(memory.measured_at + 1, start)
    # What the provider holds itself includes its own answer.
    reply = 1.0 if memory.measured_at < 0 else _returned([messages[number] for number in run], anchor)
    # Another answer than the one we saw is as new to us as the rest.
    new = sum(now[start if reply is not None else run.start :])
    if reply is not None:
        # The provider's output count holds the answer's content; the envelope around it is charged when it comes back.
        new += scale.overheads.message * (len(run) if memory.measured_at >= 0 else 1)
    reasoning = anchor.usage.reasoning_tokens or 0 if anchor.usage is not None else 0
    came = len(messages) - start + len(run)
    return start, run, reply, Growth(new, came, _results(weighed.sizes[start:]), 0 if reply is None else reasoning)


def _least(weighed: Weighed, now: Sequence[int], learned: Learned) -> int:
    """What is in the request for certain: half of it by our own count, which is never further off for long."""
    return _scaled(weighed.system + weighed.tools + sum(now), learned) // 2


def _drift(weighed: Weighed, plan: Plan, memory: Memory, now: Sequence[int]) -> int:
    """What the measured messages weigh more under this plan than under the one that was measured."""
    if plan.edits == memory.measured_plan.edits:
        return 0
    then = standing_tokens(weighed, memory.measured_plan)
    return sum(now[: memory.measured_at + 1]) - sum(then[: memory.measured_at + 1])


def _taken(weighed: Weighed, plan: Plan) -> set[int]:
    """Indices of the messages in whose place a summary stands."""
    if Summarise not in set(map(type, plan.edits)):
        return set()
    _, edits = standing_edits(weighed.notes, weighed.keys, plan)
    return {number for start, end, _ in written_summaries(edits, weighed.index) for number in range(start, end + 1)}


def _first_inputs(
    messages: Sequence[Message],
    weighed: Weighed,
    plan: Plan,
    now: Sequence[int],
    scale: Scale,
    learned: Learned,
    *,
    sealed: int = 0,
) -> Inputs:
    """A pure estimate of everything, corrected by what first calls have taught. `sealed`: reasoning that we cannot count."""
    fixed = weighed.system + weighed.tools + scale.overheads.request
    growth = Growth(fixed + sum(now), len(messages), _results(weighed.sizes))
    predicted = first_tokens(learned, growth)
    present = Present(
        system=weighed.system,
        tools=weighed.tools,
        new=predicted - fixed + sealed,
        reasoning=standing_reasoning(weighed, plan),
        reasoning_raw=weighed.reasoning,
        priming=scale.overheads.request,
    )
    return Inputs(present=present, last=None, growth=growth, has_media=_has_media(messages))


def _scaled(tokens: int, learned: Learned) -> int:
    return round(tokens * learned.factor)


def _results(sizes: Sequence[Sequence[Size]]) -> int:
    return sum(map(len, sizes))


def _has_media(messages: Sequence[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if isinstance(part, Media) or (isinstance(part, ToolResult) and part.media):
                return True
    return False


def compacted_since(plan: Plan, memory: Memory) -> bool:
    """Whether a summary stands now that did not stand in the measured call and took most of it: its usage says little then.

    A record of a few steps is one more edit of the measured part.
    """
    known = edits_of(memory.measured_plan.edits, Summarise)
    new = [edit for edit in edits_of(plan.edits, Summarise) if edit not in known]
    usage = memory.measured.usage if memory.measured else None
    measured = usage.input_tokens or 0 if usage is not None else 0
    return any(2 * (edit.tokens_before - edit.tokens_after) >= measured for edit in new)


def reply_end(messages: Sequence[Message], at: int) -> int:
    """Index behind the answer to the request that ended with message `at`."""
    end = at + 1
    while end < len(messages) and messages[end].role == "assistant":
        end += 1
    return end


def _returned(run: Sequence[Message], anchor: Anchor) -> float | None:
    """The share of the anchor's output that this answer is; None when there is no answer, or not one of the anchor's."""
    if not run:
        return None
    print_ = reply_print(run)
    for reply in anchor.replies:
        if reply.fingerprint == print_:
            return reply.share
    return None


def _carries_reasoning(received: Received, run: range, plan: Plan) -> bool:
    """Whether the body, as it goes out, holds reasoning in any of these messages."""
    stripped = {edit.at for edit in edits_of(plan.edits, StripReasoning)}
    restored = {edit.at for edit in edits_of(plan.edits, RestoreReasoning) if edit.tokens_after}
    messages = received.conversation.messages
    return any(
        received.keys[number] not in stripped
        and (received.keys[number] in restored or any(isinstance(part, Reasoning) for part in messages[number].parts))
        for number in run
    )
