"""A request under a plan, on its way to what goes out: weighed, predicted, written.

`prepare` decides with a `Draft` in hand and ends with a `Ready`.
"""

from hashlib import blake2b

import msgspec

from proxy.compaction.policy import leaves_time
from proxy.conversation.edit import EMPTY_PLAN, Edit, Plan, Summarise, edits_of, first_of
from proxy.dialects.lens import apply_plan
from proxy.exchange.binding import drop_option
from proxy.exchange.compact import Need
from proxy.exchange.decided import dated, new_edits, plan_id
from proxy.exchange.measure import Inputs, formula_inputs, standing_tokens
from proxy.exchange.policy import Policy
from proxy.exchange.receive import Memory, Received, comes_back_changed, joins_at
from proxy.exchange.spent import drops_reasoning
from proxy.exchange.warmth import head_digests, oldest_entry, warmth_of
from proxy.exchange.weigh import Weighed
from proxy.ledger.records import Anchor
from proxy.tokens.context import ContextSize, context_size, reserve_tokens
from proxy.tokens.estimate import Scale
from proxy.tokens.learn import Learned


class Ready(msgspec.Struct, frozen=True, kw_only=True):
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
    """The prediction for `body`: what is decided by. Where the provider counted the request, its count corrects this."""
    estimated: int
    """Input tokens of `body` by the unified formula alone: what accuracy is measured by."""
    removed_tokens: int
    """Estimated tokens that the plan takes out of this body."""
    weighed: Weighed
    inputs: Inputs
    before: Anchor | None
    """The measured call before this one."""
    anchor: Anchor
    """To be stored before the body goes out when there are new edits, and completed after the answer."""
    learned: Learned
    """What corrected the prediction."""
    joins_at: int
    """See exchange.receive.joins_at."""
    skipped: str = ""
    would_remove_tokens: int = 0
    """While observing: estimated tokens that the plan would have taken out; 0 where the plan is sent."""
    summarised: bool = False
    """A summary stands in the body."""
    need: Need | None = None
    """A summary that is due: now (this body is what goes out without it) or in the background."""
    asked_usage: bool = False
    """We asked for usage and the client did not: hide it."""
    drops_reasoning: bool = False
    """Predicted without the reasoning of earlier turns (exchange.spent)."""
    marked: bool = False
    """We set cache breakpoints in the body."""
    header: tuple[bytes, bytes] | None = None
    """To be sent with the body: a provider's option that stands in it needs this header."""

    @property
    def changed(self) -> bool:
        """Whether the body differs from the client's in more than the wish for usage."""
        return bool(self.sent_plan.edits)

    @property
    def known_tokens(self) -> int:
        """What the formula knew for certain: everything but `new`. 0 for a pure estimate."""
        return self.estimated - self.inputs.present.new if self.context.basis == "anchored" else 0


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A request under a plan, on the way to Ready."""

    received: Received
    memory: Memory
    weighed: Weighed
    scale: Scale
    policy: Policy
    learned: Learned
    plan: Plan
    tokens: list[int]
    """Of each message as it goes out under the plan."""
    inputs: Inputs
    estimated: int
    """By the unified formula alone."""
    context: ContextSize
    """The same, or with the policy's correction: what is decided by."""

    def under(self, plan: Plan) -> "Draft":
        """The same request under another plan, whose new edits get this call's number, predicted anew."""
        # Before anything is noted under it: the next call inherits this plan, and finds what was noted.
        plan = dated(plan, self.memory.plan, _turn(self.received, self.memory))
        return draft_of(self.received, self.memory, self.weighed, self.scale, self.policy, self.learned, plan)

    def with_edits(self, edits: tuple[Edit, ...]) -> "Draft":
        """The same request with these edits behind the others."""
        return self.under(self.plan.with_edits(edits)) if edits else self


def draft_of(
    received: Received,
    memory: Memory,
    weighed: Weighed,
    scale: Scale,
    policy: Policy,
    learned: Learned,
    plan: Plan,
) -> Draft:
    """The request under the plan, predicted."""
    tokens = standing_tokens(weighed, plan)
    drops = drops_reasoning(policy.reasoning, learned)
    inputs = formula_inputs(received, memory, weighed, plan, tokens, scale, learned, drops=drops)
    context = _context(inputs, received, policy)
    estimated = context.total
    if policy.correction:
        counted = msgspec.structs.replace(inputs.present, new=inputs.present.new + policy.correction)
        context = _context(msgspec.structs.replace(inputs, present=counted), received, policy)
    return Draft(
        received=received,
        memory=memory,
        weighed=weighed,
        scale=scale,
        policy=policy,
        learned=learned,
        plan=plan,
        tokens=tokens,
        inputs=inputs,
        estimated=estimated,
        context=context,
    )


def _context(inputs: Inputs, received: Received, policy: Policy) -> ContextSize:
    return context_size(
        inputs.present,
        inputs.last,
        window=policy.window,
        reserve=reserve_tokens(received.conversation.max_output, policy.max_output, policy.window),
        max_input=policy.max_input,
    )


def ready_of(draft: Draft, *, now: float, skipped: str, pressed: bool) -> Ready:
    """The draft, written."""
    received, policy, memory = draft.received, draft.policy, draft.memory
    turn = _turn(received, memory)
    sends = policy.mode == "prune"
    sent = draft if sends or not draft.plan.edits else draft.under(EMPTY_PLAN)
    splices = received.dialect.ask_usage(received.view) if policy.ask_usage else ()
    option = drop_option(received, draft.weighed, sent.plan, policy) if sent.plan.edits else None
    extra = (*splices, *option.splices) if option is not None else splices
    applied = apply_plan(received.dialect, received.view, received.keys, sent.plan, extra)
    removed = _removed(sent)
    body = received.dialect.mark_cache(applied.body) if _wants_marks(received, policy) else applied.body
    ready = Ready(
        received=received,
        body=body,
        plan=draft.plan,
        sent_plan=Plan(applied.standing) if applied.standing else EMPTY_PLAN,
        new_edits=new_edits(draft.plan, memory.plan),
        context=sent.context,
        estimated=sent.estimated,
        removed_tokens=removed,
        weighed=draft.weighed,
        inputs=sent.inputs,
        before=memory.measured,
        anchor=_anchor(sent, plan=draft.plan, turn=turn, now=now, sent=sends, removed=removed, pressed=pressed),
        learned=draft.learned,
        joins_at=-1 if policy.replay_only or not received.keys else joins_at(received, memory),
        skipped=skipped,
        drops_reasoning=drops_reasoning(policy.reasoning, draft.learned),
    )
    if sent is draft and option is None and body is received.view.body:
        return ready
    # In a step of its own: of more than 15 names in one call Python makes a dict first.
    return msgspec.structs.replace(
        ready,
        would_remove_tokens=0 if sends else _removed(draft),
        summarised=bool(edits_of(applied.standing, Summarise)),
        asked_usage=bool(splices),
        marked=body is not applied.body,
        header=option.header if option is not None else None,
    )


def _removed(draft: Draft) -> int:
    """Tokens that the plan takes out, by what was learned of the provider's counts: as the total is predicted."""
    if not draft.plan.edits:
        return 0
    return round(max(0, draft.weighed.total - sum(draft.tokens)) * draft.learned.factor)


def _wants_marks(received: Received, policy: Policy) -> bool:
    """Not where nobody will read what would be written: a count and a side call have no next turn."""
    return policy.auto_cache and policy.mode == "prune" and not policy.replay_only and not received.conversation.utility


def _turn(received: Received, memory: Memory) -> int:
    """The number of this call; a retry keeps its own."""
    line = memory.line
    if line is None:
        return 1
    return line.turn if memory.line_at == len(received.keys) - 1 else line.turn + 1


def _anchor(draft: Draft, *, plan: Plan, turn: int, now: float, sent: bool, removed: int, pressed: bool) -> Anchor:
    """The anchor of this call, still without usage."""
    received, memory = draft.received, draft.memory
    conversation, line = received.conversation, memory.line
    key = received.keys[-1] if received.keys else b""
    system_digest, tools_digest = head_digests(conversation)
    anchor = Anchor(
        key=key,
        session=line.session if line else session_id(key),
        turn=turn,
        at=now,
        model=conversation.model,
        plan_id=line.plan_id if line and plan is memory.plan and plan.edits else plan_id(draft.weighed.notes, plan),
        sent=sent,
        system_tokens=draft.weighed.system,
        system_digest=system_digest,
        tools_tokens=draft.weighed.tools,
        tools_digest=tools_digest,
        estimated=draft.estimated,
        server_edits=conversation.server_edits,
        removed_tokens=removed,
        pressed=pressed,
    )
    if line is None:
        return anchor
    warmth = warmth_of(conversation, memory, draft.policy, now)
    # In a step of its own: of more than 15 names in one call Python makes a dict first.
    return msgspec.structs.replace(
        anchor,
        refused=line.refused,
        warm_tokens=memory.measured.warm_tokens if memory.measured else 0,
        # Calls whose history the client has changed since have left nothing behind that change.
        rewritten=(
            len(conversation.messages) if warmth.cold or comes_back_changed(received, memory) else warmth.rewritten
        ),
    )


def read_lately(ready: Ready, memory: Memory, policy: Policy) -> int:
    """Number of leading messages that go out as the call before sent them, whose cache entry has not expired."""
    line, conversation = memory.line, ready.received.conversation
    if line is None or not line.sent or line.model != conversation.model:
        return 0
    if warmth_of(conversation, memory, policy, ready.anchor.at).cold:
        return 0
    index = ready.weighed.index
    changed = [index[at] for edit in ready.new_edits if (at := first_of(edit)) in index]
    return min([memory.line_at + 1, *changed])


def reads_more_later(ready: Ready, policy: Policy) -> bool:
    """Whether the background summary that this call needs should be put off: all entries of its prefix end behind its span.

    A later call's span reaches one of them, since it moves on and they stay. Only while that leaves time.
    """
    need, prices = ready.need, policy.prices
    if need is None or not need.fits_warm or policy.compact.model or prices is None or not prices.breakpoints:
        return False
    messages = ready.received.conversation.messages
    if need.span.last + 1 >= oldest_entry(messages, ready.plan, ready.weighed.index, need.span.last):
        return False
    return leaves_time(ready.context, policy.compact, doubt=policy.doubt, turn_tokens=need.turn_tokens)


def session_id(key: bytes) -> str:
    """The public name of a conversation, from its first call's key: the same on every replica and for every retry."""
    return blake2b(key, digest_size=8, person=b"session").hexdigest()
