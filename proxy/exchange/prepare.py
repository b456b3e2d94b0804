"""Second verb: replay what was decided, predict, decide what is new, and write the body that goes out.

The order matters. Replay comes before the formula, because "last input" was reported for the body that we sent and not
for the one the client sent. New decisions come after it, from that one number, and each of them changes the number at
once. Nothing here awaits: where a decision needs a summary, it is returned as a need.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import msgspec

from proxy.conversation.edit import EMPTY_PLAN, Edit, Insert, Plan, Summarise
from proxy.conversation.model import after_last_assistant
from proxy.conversation.recall import Recall
from proxy.dialects.lens import apply_plan, stands
from proxy.exchange.compact import Need, need_of
from proxy.exchange.measure import Inputs, Weighed, formula_inputs, standing_tokens, weigh
from proxy.exchange.policy import Policy
from proxy.exchange.receive import Memory, Received
from proxy.ledger.records import Anchor
from proxy.pruning.plan import arrive, prune
from proxy.pruning.situation import Situation
from proxy.tokens.context import ContextSize, context_size, reserve_tokens
from proxy.tokens.estimate import Scale
from proxy.tokens.learn import NOTHING_LEARNED, Learned


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A call that can go out."""

    received: Received
    body: bytes
    """What is sent; the very same object as the client's body when there is nothing to change."""
    plan: Plan
    """The plan as decided, inherited edits included."""
    sent_plan: Plan
    """What of it stands in `body`: all, or nothing when only observing."""
    new_edits: tuple[Edit, ...]
    context: ContextSize
    """The prediction for `body`."""
    removed_tokens: int
    """Estimated tokens that the plan takes out of this body."""
    weighed: Weighed
    inputs: Inputs
    known_tokens: int
    """What the formula knew for certain: everything but `new`. 0 for a pure estimate."""
    before: Anchor | None
    """The measured call before this one."""
    shared_tokens: int
    """Of the unpruned input: what the measured call before this one had already sent."""
    anchor: Anchor
    """To be stored before the body goes out when there are new edits, and completed after the answer."""
    pressed: bool = False
    skipped: str = ""
    need: Need | None = None
    """A summary that is due: now (this body is what goes out without it) or in the background."""
    asked_usage: bool = False
    """We asked for usage and the client did not: hide it."""

    @property
    def changed(self) -> bool:
        """Whether the body differs from the client's in more than the wish for usage."""
        return bool(self.sent_plan.edits)

    @property
    def summarised(self) -> bool:
        """Whether a summary stands in the body."""
        return any(isinstance(edit, Summarise) for edit in self.sent_plan.edits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A request under a plan, on the way to Ready."""

    received: Received
    memory: Memory
    weighed: Weighed
    scale: Scale
    policy: Policy
    learned: Learned
    plan: Plan
    tokens: list[int]
    inputs: Inputs
    context: ContextSize

    def under(self, plan: Plan) -> "_Draft":
        """The same request under another plan, predicted anew."""
        return _draft(self.received, self.memory, self.weighed, self.scale, self.policy, self.learned, plan)


def prepare(
    received: Received,
    memory: Memory,
    policy: Policy,
    scale: Scale,
    *,
    recall: Recall,
    now: float,
    held_out: bool = False,
    learned: Learned = NOTHING_LEARNED,
    summary: Summarise | None = None,
) -> Ready:
    """What goes out for this request, and what is to be remembered of it.

    `now`: Unix time. `summary`: an accepted summary that is to stand in this request (exchange.compact); prepare is
    called again with it when the handler has got one.
    """
    weighed = weigh(received, scale)
    inherited = _standing(memory.plan, weighed) if policy.mode != "off" else EMPTY_PLAN
    draft = _draft(received, memory, weighed, scale, policy, learned, inherited)
    skipped = blocked = _why_no_decisions(received, memory, policy, held_out=held_out)
    pressed = bool(memory.line and memory.line.pressed)
    if not blocked:
        draft = _arrived(draft)
        if summary is not None:
            draft = draft.under(_absorbed(draft.plan, summary, weighed))
        draft, skipped, pressed = _pruned(draft, now)
    ready = _ready(draft, recall, now=now, skipped=skipped, pressed=pressed)
    if not blocked and summary is None:
        need = need_of(received, draft.plan, draft.tokens, draft.context, policy.compact, policy.doubt)
        return ready if need is None else replace(ready, need=need)
    return ready


def as_it_came(ready: Ready, memory: Memory, policy: Policy, scale: Scale, learned: Learned) -> Ready:
    """The same call with the client's own bytes: after a provider has refused what we made of them."""
    draft = _draft(ready.received, memory, ready.weighed, scale, policy, learned, EMPTY_PLAN)
    policy = replace(policy, ask_usage=False)
    plain = _ready(replace(draft, policy=policy), Recall(), now=ready.anchor.at, skipped="refused", pressed=False)
    return replace(plain, anchor=msgspec.structs.replace(plain.anchor, refused=ready.changed))


def _draft(
    received: Received,
    memory: Memory,
    weighed: Weighed,
    scale: Scale,
    policy: Policy,
    learned: Learned,
    plan: Plan,
) -> _Draft:
    tokens = standing_tokens(weighed, plan)
    inputs = formula_inputs(received, memory, weighed, plan, tokens, scale, learned)
    reserve = reserve_tokens(received.conversation.max_output, policy.max_output, policy.window)
    return _Draft(
        received=received,
        memory=memory,
        weighed=weighed,
        scale=scale,
        policy=policy,
        learned=learned,
        plan=plan,
        tokens=tokens,
        inputs=inputs,
        context=context_size(inputs.present, inputs.last, window=policy.window, reserve=reserve),
    )


def _why_no_decisions(received: Received, memory: Memory, policy: Policy, *, held_out: bool) -> str:
    conversation = received.conversation
    reasons = {
        "off": policy.mode == "off",
        "replay_only": policy.replay_only,
        "held_out": held_out,
        "utility": conversation.utility,
        "server_history": bool(conversation.server_history),
        "refused": bool(memory.line and memory.line.refused),
        "no_messages": not conversation.messages,
        "not_editable": not received.view.editable,
    }
    return next((name for name, applies in reasons.items() if applies), "")


def _situation(draft: _Draft, *, seen: int, now: float) -> Situation:
    line, policy = draft.memory.line, draft.policy
    conversation = draft.received.conversation
    return Situation(
        messages=conversation.messages,
        keys=draft.received.keys,
        seen=seen,
        count=draft.scale.weigh_text,
        parts_tokens=lambda index: draft.weighed.weights[index].parts,
        message_tokens=draft.tokens,
        total=draft.context.total,
        plan=draft.plan,
        window=policy.window,
        reserve=draft.context.reserve,
        prices=policy.prices,
        cold=line is not None and now - line.at > policy.cache_ttl_s,
        pressed=bool(line and line.pressed),
        expected_turns=policy.expected_turns,
        model=conversation.model,
        tools=conversation.tools.names,
    )


def _arrived(draft: _Draft) -> _Draft:
    """Edits of results that no model has seen. What an earlier attempt of this very request sent counts as seen."""
    messages = draft.received.conversation.messages
    seen = max(after_last_assistant(messages), draft.memory.line_at + 1)
    edits = arrive(_situation(draft, seen=seen, now=0.0), draft.policy.arrive)
    return draft.under(draft.plan.with_edits(edits)) if edits else draft


def _pruned(draft: _Draft, now: float) -> tuple[_Draft, str, bool]:
    """Placeholders for older results, in one batch."""
    seen = after_last_assistant(draft.received.conversation.messages)
    decision = prune(_situation(draft, seen=seen, now=now), draft.policy.prune)
    pruned = draft.under(draft.plan.with_edits(decision.edits)) if decision.edits else draft
    return pruned, decision.skipped, decision.pressed


def _ready(draft: _Draft, recall: Recall, *, now: float, skipped: str, pressed: bool) -> Ready:
    received, policy, memory = draft.received, draft.policy, draft.memory
    sends = policy.mode == "prune"
    sent = draft if sends or not draft.plan.edits else draft.under(EMPTY_PLAN)
    splices = received.dialect.ask_usage(received.view) if policy.ask_usage else ()
    applied = apply_plan(received.dialect, received.view, received.keys, sent.plan, recall, splices)
    removed = max(0, sum(weight.total for weight in draft.weighed.weights) - sum(sent.tokens))
    inherited = set(memory.plan.edits)
    return Ready(
        received=received,
        body=applied.body,
        plan=draft.plan,
        sent_plan=Plan(applied.standing),
        new_edits=tuple(edit for edit in draft.plan.edits if edit not in inherited),
        context=sent.context,
        removed_tokens=removed,
        weighed=draft.weighed,
        inputs=sent.inputs,
        before=memory.measured,
        shared_tokens=_shared(memory),
        known_tokens=sent.context.total - sent.context.new if sent.context.basis == "anchored" else 0,
        anchor=_anchor(sent, plan=draft.plan, now=now, sent=sends, removed=removed, pressed=pressed),
        pressed=pressed,
        skipped=skipped,
        asked_usage=bool(splices),
    )


def _absorbed(plan: Plan, summary: Summarise, weighed: Weighed) -> Plan:
    """The plan with a new summary in it, without the edits that it swallows."""
    index = weighed.index
    if not stands(summary, index):
        return plan
    covered = range(index[summary.first], index[summary.last] + 1)

    def is_inside(edit: Edit) -> bool:
        match edit:
            case Summarise():
                return index[edit.first] in covered and index[edit.last] in covered
            case Insert():
                return index[edit.after] in covered
            case _:
                return index[edit.at] in covered

    return Plan((*(edit for edit in plan.edits if not is_inside(edit)), summary))


def _standing(plan: Plan, weighed: Weighed) -> Plan:
    """What of an inherited plan concerns this request: a fork leaves the edits of the other branch behind."""
    kept = tuple(edit for edit in plan.edits if stands(edit, weighed.index))
    return plan if len(kept) == len(plan.edits) else Plan(kept)


def _anchor(draft: _Draft, *, plan: Plan, now: float, sent: bool, removed: int, pressed: bool) -> Anchor:
    """The anchor of this call, still without usage."""
    received, memory = draft.received, draft.memory
    conversation, line = received.conversation, memory.line
    key = received.keys[-1] if received.keys else b""
    is_retry = memory.line_at == len(received.keys) - 1
    return Anchor(
        key=key,
        session=line.session if line else session_id(key),
        turn=(line.turn if is_retry else line.turn + 1) if line else 1,
        at=now,
        upstream="",
        model=conversation.model,
        plan_id=plan.plan_id(),
        sent=sent,
        system_tokens=draft.weighed.system,
        tools_tokens=draft.weighed.tools,
        estimated=draft.context.total,
        server_edits=conversation.server_edits,
        removed_tokens=removed,
        refused=bool(line and line.refused),
        pressed=pressed,
        warm_tokens=memory.measured.warm_tokens if memory.measured else 0,
    )


def _shared(memory: Memory) -> int:
    """The unpruned length of the request before this one: all of it is this one's prefix."""
    anchor = memory.measured
    return (anchor.usage.input_tokens or 0) + anchor.removed_tokens if anchor and anchor.usage else 0


def session_id(key: bytes) -> str:
    """The public name of a conversation, from its first call's key: the same on every replica and for every retry."""
    return blake2b(key, digest_size=8, person=b"session").hexdigest()
