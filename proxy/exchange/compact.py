"""Compaction between the verbs: what is to be summarised, how it is asked for, and what becomes of the answer.

`prepare` returns a `Need`; the handler gets a text for it, from a model or not at all; `summarise_edit` says whether it
may stand. Nothing here calls anyone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.compaction.policy import CompactPolicy, is_hopeless, stage_of
from proxy.compaction.prompt import INSTRUCTION, READER, asked, deterministic, flattened, histories
from proxy.compaction.span import Span, choose_span
from proxy.compaction.summary import Verdict, judge, pinned_facts, standing_text
from proxy.conversation.edit import Insert, Plan, Replace, RestoreReasoning, StripReasoning, Summarise
from proxy.conversation.model import Message, Text
from proxy.conversation.recall import Recall
from proxy.dialects.base import Splice
from proxy.dialects.lens import apply_plan
from proxy.exchange.receive import Received
from proxy.pruning.identifiers import identifiers
from proxy.tokens.context import ContextSize

_MOST_PIECES = 4
"""Summary calls for one compaction, when one model call cannot read the whole span."""
_CALL_OVERHEAD_TOKENS = 600
"""Instruction, system text and envelope of a summary call."""
_PINNED_TOKENS = 400
_RECENT_SHARE = 0.25
"""Of the span: whose identifiers the summary is checked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A span that waits for its summary."""

    span: Span
    first: bytes
    """Prefix key of the span's first message."""
    last: bytes
    earlier: str
    """Text of the earlier summary that the new one takes in; empty for none."""
    earlier_last: int
    """Index of the last message that it covers; -1 for none."""
    before_tokens: int
    """Of the span as it goes out now."""
    history_tokens: int
    """Of the whole history as it goes out now."""
    fits_warm: bool
    """The conversation up to the span's end, an instruction and an answer fit into the window: `warm_body` can be sent."""
    now: bool
    """False: it may be made in the background."""
    must_fit: bool
    """Without it the request does not fit into the window: where the model fails, the deterministic record stands."""
    said: tuple[tuple[int, str], ...] = ()
    """Queued messages that were said: index of the message before each, and its text."""


def need_of(
    received: Received, plan: Plan, tokens: Sequence[int], context: ContextSize, policy: CompactPolicy, doubt: float
) -> Need | None:
    """What has to be summarised for this request; None when nothing has."""
    stage = stage_of(context, policy, doubt=doubt)
    usable = context.usable
    if stage == "none" or usable is None:
        return None
    index = {key: number for number, key in enumerate(received.keys)}
    covered, earlier = -1, ""
    for edit in plan.edits:
        if isinstance(edit, Summarise) and edit.last in index and index[edit.last] > covered:
            covered, earlier = index[edit.last], edit.text
    messages = received.conversation.messages
    span = choose_span(messages, tokens, policy, usable, must_cover=covered)
    if span is None:
        return None
    if covered >= 0:
        first = min(index[edit.first] for edit in plan.edits if isinstance(edit, Summarise) and edit.first in index)
        span = Span(first=first, last=span.last, quote=span.quote)
    return Need(
        span=span,
        first=received.keys[span.first],
        last=received.keys[span.last],
        earlier=earlier,
        earlier_last=covered,
        said=tuple(
            (index[edit.after], edit.text) for edit in plan.edits if isinstance(edit, Insert) and edit.after in index
        ),
        before_tokens=sum(tokens[span.first : span.last + 1]),
        history_tokens=sum(tokens),
        fits_warm=_fits_warm(context, sum(tokens[span.last + 1 :]), policy),
        now=stage == "now",
        must_fit=policy.trigger == "window",
    )


def _fits_warm(context: ContextSize, behind: int, policy: CompactPolicy) -> bool:
    asked = context.total - behind + _CALL_OVERHEAD_TOKENS + policy.max_summary_tokens
    return context.window is None or asked <= context.window


def _told(need: Need, received: Received) -> list[Message]:
    """What the summary must tell: the span behind the earlier summary, with the queued messages that were said in it."""
    told = []
    for number in range(max(need.span.first, need.earlier_last + 1), need.span.last + 1):
        told.append(received.conversation.messages[number])
        told += [
            Message(role="user", parts=(Text(text=text),), digest=b"") for after, text in need.said if after == number
        ]
    return told


def hopeless(context: ContextSize, policy: CompactPolicy) -> bool:
    """System text and tools alone are over the limit."""
    return is_hopeless(context, policy)


def summary_calls(
    need: Need, received: Received, policy: CompactPolicy, count: Callable[[str], int], window: int | None
) -> list[str]:
    """The histories to be summarised one after the other, each within the `window` of the model that does it."""
    output = min(policy.max_summary_tokens, (window or 32_000) // 4)
    room = (window or 128_000) - output - _CALL_OVERHEAD_TOKENS - count(need.earlier)
    return histories(_told(need, received), count, max(200, room), _MOST_PIECES)


def fresh_body(received: Received, policy: CompactPolicy, history: str, earlier: str, window: int | None) -> bytes:
    """A summary call of its own, for `policy.model` or else the conversation's."""
    output = min(policy.max_summary_tokens, (window or 32_000) // 4)
    return received.dialect.summary_body(
        model=policy.model or received.conversation.model,
        system=READER,
        text=asked(history, earlier),
        max_tokens=output,
    )


def warm_body(need: Need, received: Received, plan: Plan, policy: CompactPolicy, recall: Recall) -> bytes:
    """A summary call on the prefix that the provider's cache holds: the body as it last went out, up to the span's end."""
    view = received.view
    index = {key: number for number, key in enumerate(received.keys)}
    inside = tuple(
        edit
        for edit in plan.edits
        if (
            isinstance(edit, Replace | StripReasoning | RestoreReasoning)
            and index.get(edit.at, 1 << 30) <= need.span.last
        )
        or (isinstance(edit, Summarise) and index.get(edit.last, 1 << 30) <= need.span.last)
        or (isinstance(edit, Insert) and index.get(edit.after, 1 << 30) <= need.span.last)
    )
    tail = Splice(
        start=view.spans[need.span.last][1],
        end=view.spans[-1][1],
        text=b"," + received.dialect.user_message(INSTRUCTION),
    )
    applied = apply_plan(received.dialect, view, received.keys, Plan(inside), recall, (tail,))
    return received.dialect.for_summary(applied.body, policy.max_summary_tokens)


def made_without_model(need: Need, received: Received, policy: CompactPolicy, count: Callable[[str], int]) -> str:
    """The deterministic record of the span."""
    room = min(policy.max_summary_tokens, max(200, need.before_tokens // 5))
    return deterministic(
        _told(need, received), need.earlier, lambda text: identifiers(text, count, room // 3), room * 3
    )


def summarise_edit(
    need: Need, received: Received, summary: str, *, finished: bool, by_model: bool, count: Callable[[str], int]
) -> tuple[Summarise | None, Verdict]:
    """The edit that puts the summary in place, if it is good enough to stand there."""
    text = standing_text(summary, need.span.quote)
    after = count(text) + 4
    messages = received.conversation.messages[need.span.first : need.span.last + 1]
    recent = messages[int(len(messages) * (1 - _RECENT_SHARE)) :]
    pinned = pinned_facts(flattened(recent), lambda recently: identifiers(recently, count, _PINNED_TOKENS))
    verdict = judge(
        summary,
        finished=finished,
        before_tokens=need.history_tokens,
        after_tokens=need.history_tokens - need.before_tokens + after,
        pinned=pinned,
    )
    if not verdict.accepted:
        return None, verdict
    edit = Summarise(
        first=need.first,
        last=need.last,
        text=text,
        reason="written by the model" if by_model else "written without a model",
        tokens_before=need.before_tokens,
        tokens_after=after,
        by_model=by_model,
    )
    return edit, verdict
