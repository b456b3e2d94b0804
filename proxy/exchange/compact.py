"""Compaction between the verbs: what is to be summarised, how it is asked for, and what becomes of the answer.

`prepare` returns a `Need`; the handler gets a text for it, from a model or not at all; `summarise_edit` says whether it
may stand. Nothing here calls anyone.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from proxy.compaction.constraints import instructions, missing_in, word_for_word
from proxy.compaction.policy import CompactPolicy, stage_of, summary_tokens
from proxy.compaction.prompt import READER, asked, flattened, histories, instruction
from proxy.compaction.record import deterministic
from proxy.compaction.span import Span, choose_span
from proxy.compaction.summary import Verdict, bare, judge, pinned_facts, standing_text
from proxy.conversation.edit import (
    Insert,
    Plan,
    Replace,
    RestoreReasoning,
    StripReasoning,
    Summarise,
    edits_of,
)
from proxy.conversation.fingerprint import index_of
from proxy.conversation.model import Message, Text
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
_SAID_SHARE = 0.5
"""Of a summary's length: what the user's own words may take beside it."""
_AIM = 0.7
"""Of the history: where they would make it larger than that, there is less of them."""
_CHARS_PER_TOKEN = 4
_ANSWER_ROOM = 2
"""The answer's limit is a multiple of the length that is asked for: hidden reasoning is counted too."""
_RECORD_CHARS_PER_TOKEN = 3
_LONG = 2
_SURE_SHARE = 0.97
"""Of the window: anchored estimates are off by less."""


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
    reaches: int
    """Index of a message that any summary must cover that is to stand here."""
    before_tokens: int
    """Of the span as it goes out now."""
    history_tokens: int
    """Of the whole history as it goes out now."""
    fits_warm: bool
    """The conversation up to the span's end, an instruction and an answer fit into the window: `warm_body` can be sent."""
    now: bool
    """False: it may be made in the background."""
    must_fit: bool
    """It is due because the window is full: where the model fails, the deterministic record stands. At a share of the
    user's own choosing the history goes out as it is, and the provider has the word; if it refuses, the call is rescued."""
    summary_tokens: int = 4_000
    """How long the summary may be."""
    turn_tokens: float = math.inf
    """What stands in the request from the last answer on."""
    can_wait: bool = False
    """The room for the answer is our own guess, and for one more answer there is enough of it."""
    earlier_by_model: bool = True
    alternates: bool = False
    """Roles must: only a summary of this very beginning can stand."""
    said: tuple[tuple[int, str], ...] = ()
    """Queued messages that were said: index of the message before each, and its text."""


def need_of(
    received: Received,
    plan: Plan,
    tokens: Sequence[int],
    context: ContextSize,
    policy: CompactPolicy,
    doubt: float,
    *,
    alternates: bool = False,
) -> Need | None:
    """What has to be summarised for this request, None when nothing has. `alternates`: roles must."""
    turn_tokens = _turn_tokens(received, tokens)
    stage = stage_of(context, policy, doubt=doubt, turn_tokens=turn_tokens)
    if stage == "none" or (usable := context.usable) is None:
        return None
    index = index_of(received.keys)
    summaries = _summaries(plan, index)
    covered = index[summaries[-1].last] if summaries else -1
    messages = received.conversation.messages
    length = summary_tokens(policy, usable)
    merges = len(summaries) > 1 or any(_is_long(edit, length) for edit in summaries)
    span = choose_span(messages, tokens, policy, usable, must_cover=covered, merges=merges, alternates=alternates)
    if span is None:
        return None
    # Records of single steps become one of all of them: it is made of the messages, as they were.
    anew = span.last <= covered
    if covered >= 0 and not alternates:
        first = min(index[edit.first] for edit in summaries)
        span = Span(first=first, last=span.last, quote=span.quote)
    return Need(
        span=span,
        first=received.keys[span.first],
        last=received.keys[span.last],
        earlier="" if anew else "\n\n".join(bare(edit.text) for edit in summaries),
        earlier_last=-1 if anew else covered,
        reaches=covered if anew else covered + 1,
        said=tuple((index[edit.after], edit.text) for edit in edits_of(plan.edits, Insert) if edit.after in index),
        before_tokens=sum(tokens[span.first : span.last + 1]),
        history_tokens=sum(tokens),
        # The instruction would stand behind another user message.
        fits_warm=not alternates and _fits_warm(context, sum(tokens[span.last + 1 :]), length),
        now=stage == "now",
        must_fit=policy.trigger == "window",
        summary_tokens=length,
        turn_tokens=turn_tokens,
        can_wait=received.conversation.max_output is None and _has_room(context),
        earlier_by_model=any(edit.by_model for edit in summaries) or not summaries,
        alternates=alternates,
    )


def _turn_tokens(received: Received, tokens: Sequence[int]) -> int:
    """What stands in the request from the last answer on."""
    ends = received.candidates
    return sum(tokens[ends[1] + 1 :] if len(ends) > 1 else tokens)


def _summaries(plan: Plan, index: Mapping[bytes, int]) -> list[Summarise]:
    """Those that stand in this request, in their order."""
    standing = (edit for edit in edits_of(plan.edits, Summarise) if edit.last in index)
    return sorted(standing, key=lambda edit: index[edit.last])


def _is_long(summary: Summarise, most_tokens: int) -> bool:
    """Whether this is no summary of all that is in it, but steps in short (exchange.early), of which there may be many."""
    return not summary.by_model and summary.tokens_after > _LONG * most_tokens


def _has_room(context: ContextSize) -> bool:
    """Whether an answer of ordinary length fits, although less is left than we keep free."""
    if context.window is None or context.basis != "anchored":
        return False
    if context.max_input is not None and context.total > context.max_input:
        return False
    return context.total + min(context.reserve, context.window // 8) <= _SURE_SHARE * context.window


def _fits_warm(context: ContextSize, behind: int, length: int) -> bool:
    asked = context.total - behind + _CALL_OVERHEAD_TOKENS
    if context.max_input is not None and asked > context.max_input:
        return False
    return context.window is None or asked + _ANSWER_ROOM * length <= context.window


def _told(need: Need, received: Received) -> list[Message]:
    """What the summary must tell: the span behind the earlier summary, with the queued messages that were said in it."""
    told = []
    for number in range(max(need.span.first, need.earlier_last + 1), need.span.last + 1):
        told.append(received.conversation.messages[number])
        told += [
            Message(role="user", parts=(Text(text=text),), digest=b"") for after, text in need.said if after == number
        ]
    return told


def summary_calls(need: Need, received: Received, count: Callable[[str], int], window: int | None) -> list[str]:
    """The histories to be summarised one after the other, each within the `window` of the model that does it."""
    told, answer, earlier = _told(need, received), _answer_tokens(need, window), count(need.earlier)
    room = (window or 128_000) - answer - _CALL_OVERHEAD_TOKENS
    pieces = histories(told, count, max(200, room - earlier), _MOST_PIECES)
    # Of several, each but the first has beside it what the one before has come to, which may be as long as an answer.
    return pieces if len(pieces) == 1 else histories(told, count, max(200, room - max(earlier, answer)), _MOST_PIECES)


def fresh_body(
    need: Need, received: Received, policy: CompactPolicy, history: str, earlier: str, window: int | None
) -> bytes:
    """A summary call of its own, for `policy.model` or else the conversation's."""
    output = _answer_tokens(need, window)
    return received.dialect.summary_body(
        model=policy.model or received.conversation.model,
        system=READER,
        text=asked(history, earlier, min(need.summary_tokens, output)),
        max_tokens=output,
    )


def _answer_tokens(need: Need, window: int | None) -> int:
    return min(_ANSWER_ROOM * need.summary_tokens, (window or 32_000) // 4)


def warm_body(need: Need, received: Received, plan: Plan, *, auto_cache: bool = False) -> bytes:
    """A summary call on the prefix that the provider's cache holds: the body as it last went out, up to the span's end.

    `auto_cache`: that body had breakpoints of ours.
    """
    view = received.view
    index = index_of(received.keys)
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
        text=b"," + received.dialect.user_message(instruction(need.summary_tokens)),
    )
    applied = apply_plan(received.dialect, view, received.keys, Plan(inside), (tail,))
    body = received.dialect.for_summary(applied.body, _ANSWER_ROOM * need.summary_tokens)
    # Without a breakpoint near its end, nothing of the history would be read.
    lost = view.body[tail.start : tail.end]
    return received.dialect.mark_cache(body) if auto_cache else received.dialect.moved_mark(body, lost)


def made_without_model(need: Need, received: Received, count: Callable[[str], int]) -> str:
    """The deterministic record of the span; an earlier one is made anew from the messages themselves."""
    whole = need if need.earlier_by_model else replace(need, earlier="", earlier_last=-1)
    room = min(need.summary_tokens, max(200, need.before_tokens // 5))

    def names(text: str, tokens: int, known: Collection[str]) -> Sequence[str]:
        return identifiers(text, count, tokens, known)

    return deterministic(_told(whole, received), whole.earlier, names, room * _RECORD_CHARS_PER_TOKEN)


def summarise_edit(
    need: Need, received: Received, summary: str, *, finished: bool, by_model: bool, count: Callable[[str], int]
) -> tuple[Summarise | None, Verdict]:
    """The edit that puts the summary in place, if it is good enough to stand there.

    What it lost of the user's own words and of the names that the newest messages are about stands behind it, and what the
    system said in between.
    """
    pinned = _pinned(need, received, count)
    covered = _told(replace(need, earlier_last=-1), received)
    allowed = _AIM * need.history_tokens - (need.history_tokens - need.before_tokens) - count(summary + need.span.quote)
    told = instructions(covered, int(min(need.summary_tokens, allowed) * _CHARS_PER_TOKEN))
    most_chars = int(min(_SAID_SHARE * need.summary_tokens, allowed - count(told)) * _CHARS_PER_TOKEN)
    kept = missing_in(summary + need.span.quote, word_for_word(covered, most_chars))
    names = tuple(name for name in pinned if name not in summary)
    text = standing_text(summary, need.span.quote, kept, names, told)
    after = count(text) + 4
    verdict = judge(
        summary,
        finished=finished,
        before_tokens=need.history_tokens,
        after_tokens=need.history_tokens - need.before_tokens + after,
        pinned=pinned,
    )
    if not verdict.accepted:
        return None, verdict
    author = "written by the model" if by_model else "written without a model"
    edit = Summarise(
        first=need.first,
        last=need.last,
        text=text,
        reason=f"{author}, {len(pinned) - len(names)} of {len(pinned)} pinned names in it",
        tokens_before=need.before_tokens,
        tokens_after=after,
        by_model=by_model,
        decided=len(received.conversation.messages),
    )
    return edit, verdict


def _pinned(need: Need, received: Received, count: Callable[[str], int]) -> tuple[str, ...]:
    """Names of the newest part of the span that stand nowhere behind it."""
    messages = received.conversation.messages
    span = messages[need.span.first : need.span.last + 1]
    recent = flattened(span[int(len(span) * (1 - _RECENT_SHARE)) :])
    behind = flattened(messages[need.span.last + 1 :])
    room = min(_PINNED_TOKENS, need.summary_tokens // 8)
    return pinned_facts(recent, lambda text: [name for name in identifiers(text, count, room) if name not in behind])
