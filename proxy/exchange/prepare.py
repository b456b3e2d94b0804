"""Second verb: replay what was decided, predict, decide what is new, and write the body that goes out.

The order matters. Replay comes before the formula, because "last input" was reported for the body that we sent and not
for the one the client sent. New decisions come after it, from that one number, and each of them changes the number at
once. Nothing here awaits: where a decision needs a summary, it is returned as a need. Where much is decided it may take long,
and can be taken in steps.
"""

from dataclasses import replace

import msgspec

from proxy.compaction.squeeze import UNSEEN_SHARE, level
from proxy.conversation.edit import EMPTY_PLAN, Plan, Replace, Summarise
from proxy.conversation.model import ToolResult, after_last_assistant
from proxy.conversation.steps import Steps, Stepwise
from proxy.dialects.lens import standing_edits
from proxy.exchange.alternating import unbroken
from proxy.exchange.compact import Need, need_of
from proxy.exchange.counted import tokens_of
from proxy.exchange.early import absorbed, early_record
from proxy.exchange.policy import Policy
from proxy.exchange.queue import queued_edits
from proxy.exchange.ready import Draft, Ready, draft_of, ready_of, session_id
from proxy.exchange.reasoning import restored, stripped, unbound
from proxy.exchange.receive import Memory, Received, comes_back_changed
from proxy.exchange.situations import Situations
from proxy.exchange.spent import drops_reasoning
from proxy.exchange.weigh import Weighed, weigh
from proxy.ledger.records import Queued
from proxy.pruning.ages import Ages
from proxy.pruning.plan import arrive, is_pressed, prune
from proxy.pruning.policy import ArrivePolicy
from proxy.tokens.estimate import Scale
from proxy.tokens.learn import NOTHING_LEARNED, Learned
from proxy.wire.body import NotPlain

UNDECIDED = frozenset(
    {"off", "replay_only", "held_out", "utility", "server_history", "refused", "no_messages", "not_editable"}
)
"""Reasons for which nothing at all is decided at a call (`Ready.skipped`), so that better numbers would be of no use."""
_STILL_DUE = ("", "held_out", "utility")
"""Where what a provider demands is put in again although nothing else is decided."""


@Stepwise
def prepare(
    received: Received,
    memory: Memory,
    policy: Policy,
    scale: Scale,
    *,
    now: float,
    held_out: bool = False,
    learned: Learned = NOTHING_LEARNED,
    summary: Summarise | None = None,
    queued: tuple[Queued, ...] = (),
) -> Steps[Ready]:
    """What goes out for this request, and what is to be remembered of it.

    `now`: Unix time. `summary`: an accepted summary that is to stand in this request (exchange.compact); prepare is
    called again with it when the handler has got one. `queued`: messages that wait to be said in this conversation.
    """
    weighed = weigh(received, scale, drops=drops_reasoning(policy.reasoning, learned))
    inherited = _standing(memory.plan, weighed, received, policy) if policy.mode != "off" else EMPTY_PLAN
    draft = draft_of(received, memory, weighed, scale, policy, learned, inherited)
    skipped = blocked = why_no_decisions(received, memory, policy, held_out=held_out)
    pressed = memory.pressed
    # A conversation that is left alone for comparison still hears what its user says; where roles must alternate, it waits.
    says = policy.mode == "prune" and not policy.alternates
    if queued and says and not why_no_decisions(received, memory, policy, held_out=False):
        draft = draft.with_edits(queued_edits(draft, queued))
    if blocked in _STILL_DUE:
        draft = restored(draft)
    if not blocked:
        situations = Situations(now)
        draft = _arrived(stripped(draft), situations)
        if summary is not None:
            draft = unbound(draft.under(absorbed(draft.plan, summary, weighed.index)))
        else:
            draft = yield from _recorded(draft, situations)
        draft, skipped, pressed = yield from _pruned(draft, situations)
    try:
        ready = ready_of(draft, now=now, skipped=skipped, pressed=pressed)
    except NotPlain:
        # A key that stands twice means one thing to one reader and another to the next: no edit would be true to both.
        view = msgspec.structs.replace(received.view, editable=False)
        received = msgspec.structs.replace(received, view=view)
        memory = msgspec.structs.replace(memory, plan=EMPTY_PLAN)
        return prepare(received, memory, policy, scale, now=now, held_out=held_out, learned=learned)
    # While only observing, a summary would be paid for and never be sent.
    if not blocked and summary is None and policy.mode == "prune":
        need = _need(draft)
        return ready if need is None else msgspec.structs.replace(ready, need=need)
    return ready


def _need(draft: Draft) -> Need | None:
    policy, plan = draft.policy, draft.plan
    return need_of(
        draft.received,
        plan,
        tokens_of(draft),
        draft.context,
        policy.compact,
        policy.doubt,
        alternates=policy.alternates,
    )


def as_it_came(ready: Ready, memory: Memory, policy: Policy, scale: Scale, learned: Learned) -> Ready:
    """The same call with the client's own bytes: after a provider has refused what we made of them."""
    draft = draft_of(ready.received, memory, ready.weighed, scale, policy, learned, EMPTY_PLAN)
    policy = replace(policy, ask_usage=False, auto_cache=False)
    plain = ready_of(
        msgspec.structs.replace(draft, policy=policy), now=ready.anchor.at, skipped="refused", pressed=False
    )
    return msgspec.structs.replace(plain, anchor=msgspec.structs.replace(plain.anchor, refused=ready.changed))


def why_no_decisions(received: Received, memory: Memory, policy: Policy, *, held_out: bool) -> str:
    """The first of `UNDECIDED` that applies; empty where there is none."""
    view = received.view
    conversation = view.conversation
    reason = ""
    if policy.mode == "off":
        reason = "off"
    elif policy.replay_only:
        reason = "replay_only"
    elif held_out:
        reason = "held_out"
    elif conversation.utility:
        reason = "utility"
    elif conversation.server_history:
        reason = "server_history"
    elif memory.line is not None and memory.line.refused and not policy.rescues:
        reason = "refused"
    elif not conversation.messages:
        reason = "no_messages"
    elif not view.editable:
        reason = "not_editable"
    return reason


def is_held_out(received: Received, memory: Memory, policy: Policy) -> bool:
    """Whether this conversation is one of those left alone for comparison; all its calls are, on every replica."""
    if not policy.holdout or not received.keys:
        return False
    session = memory.line.session if memory.line is not None else session_id(received.keys[-1])
    return int(session[:8], 16) < policy.holdout * 2**32


def _is_retry(draft: Draft) -> bool:
    """Whether this very request went out before: then it goes out again as it was, since it may have been read.

    Unless it has just been refused.
    """
    return not draft.policy.rescues and 0 <= draft.memory.line_at == len(draft.received.keys) - 1


def _has_results(draft: Draft) -> bool:
    """Whether there is anything that could be pruned; asked first, since most calls of a plain chat have nothing."""
    return any(draft.weighed.sizes)


def _arrived(draft: Draft, situations: Situations) -> Draft:
    """Edits of results that no model has seen. What an earlier attempt of this very request sent counts as seen."""
    if not _has_results(draft) or _would_not_last(draft):
        return draft
    messages = draft.received.conversation.messages
    seen = max(after_last_assistant(messages), draft.memory.line_at + 1 if not draft.policy.rescues else 0)
    edits = arrive(situations.of(draft, seen), _squeezing(draft, seen))
    return draft.under(draft.plan.with_edits(edits)) if edits else draft


def _would_not_last(draft: Draft) -> bool:
    """Whether what is edited at arrival comes back as another message, whole: that costs what was cached behind it."""
    memory = draft.memory
    return memory.line is not None and comes_back_changed(draft.received, memory) and not draft.context.overflows


def _squeezing(draft: Draft, seen: int) -> ArrivePolicy:
    """How results are cut at arrival: harder where the unseen ones are too much together."""
    policy, usable = draft.policy.arrive, draft.context.usable
    if not policy.cap_share or not usable or not draft.context.overflows:
        return policy
    fresh = range(seen, len(draft.tokens))
    results = [
        tokens
        for number in fresh
        for part, tokens in zip(
            draft.received.conversation.messages[number].parts, draft.weighed.weights[number].parts, strict=False
        )
        if isinstance(part, ToolResult)
    ]
    room = int(UNSEEN_SHARE * usable) - (sum(draft.tokens[number] for number in fresh) - sum(results))
    return (
        replace(policy, cap_share=min(policy.cap_share, level(results, max(0, room)) / usable)) if results else policy
    )


def _recorded(draft: Draft, situations: Situations) -> Steps[Draft]:
    """Old steps in short, where that pays."""
    policy = draft.policy
    if not policy.compact.early or _is_retry(draft):
        return draft
    seen = after_last_assistant(draft.received.conversation.messages)
    record = yield from early_record.steps(situations.of(draft, seen), policy.compact, policy.prune.protected_tools)
    return draft.under(absorbed(draft.plan, record, draft.weighed.index)) if record is not None else draft


def unpruned(draft: Draft) -> tuple[str, bool]:
    """Where no result could go: why none was looked for, and whether the window presses."""
    before = draft.memory.pressed
    if _is_retry(draft):
        return "retry", before
    context = draft.context
    return "", is_pressed(context.total + context.reserve, context.room, draft.policy.prune, before=before)


def _pruned(draft: Draft, situations: Situations) -> Steps[tuple[Draft, str, bool]]:
    """Placeholders for older results, in one batch."""
    if _is_retry(draft) or not _has_results(draft):
        return draft, *unpruned(draft)
    seen = after_last_assistant(draft.received.conversation.messages)
    ages = draft.weighed.notes.carried(("ages", draft.scale.name), Ages)
    decision = yield from prune.steps(situations.of(draft, seen), draft.policy.prune, ages)
    pruned = draft.under(draft.plan.with_edits(decision.edits)) if decision.edits else draft
    return pruned, decision.skipped, decision.pressed


def _standing(plan: Plan, weighed: Weighed, received: Received, policy: Policy) -> Plan:
    """What of an inherited plan concerns this request: a fork leaves the edits of the other branch behind."""
    if not plan.edits:
        return plan
    _, kept = standing_edits(weighed.notes, weighed.keys, plan)
    messages = received.conversation.messages
    if policy.alternates:
        kept = unbroken(kept, messages, weighed.index)
    if policy.rescues:
        # What no model has read is cut anew: it may have been cut for a larger window, in an earlier try.
        index, seen = weighed.index, after_last_assistant(messages)
        kept = tuple([edit for edit in kept if not (isinstance(edit, Replace) and index[edit.at] >= seen)])
    return plan if len(kept) == len(plan.edits) else Plan(kept)
