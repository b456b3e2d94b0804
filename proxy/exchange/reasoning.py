"""Reasoning in a draft: stripped where it was asked for, put in again where the provider demands it.

An answer's reasoning is kept with its anchor (`Reply.reasoning`, in the dialect's own JSON) until the anchor expires.
"""

from collections.abc import Iterator
from dataclasses import replace

from proxy.conversation.edit import RestoreReasoning, StripReasoning, edits_of
from proxy.conversation.fingerprint import digest, reply_print
from proxy.conversation.model import Message, after_last_assistant
from proxy.dialects.kept import is_sealed, restorations
from proxy.exchange.binding import breaks_bound
from proxy.exchange.measure import reply_end
from proxy.exchange.policy import Policy
from proxy.exchange.ready import Draft
from proxy.exchange.receive import Received
from proxy.pruning.reasoning import brings_reasoning, is_demanded, strip_edits, strips
from proxy.pruning.reasoning_rules import REFUSED, ReasoningRule


def stripped(draft: Draft) -> Draft:
    """Without the reasoning that the policy takes out, or that the provider refuses."""
    policy = draft.policy.reasoning
    if not strips(policy):
        return draft
    conversation = draft.received.conversation
    return draft.with_edits(
        strip_edits(
            conversation.messages,
            draft.received.keys,
            lambda index: draft.weighed.weights[index].reasoning,
            policy,
            model=conversation.model,
            plan=draft.plan,
            alone=draft.received.dialect.reasoning_alone,
        )
    )


def restored(draft: Draft) -> Draft:
    """With the reasoning that the client lost and the ledger still has."""
    policy = draft.policy.reasoning
    if policy.restore is False or policy.rule.refuses or not (policy.restore is True or policy.rule.demands):
        return draft
    if not draft.memory.answered:
        return draft
    found = tuple(_restorations(draft))
    if not found:
        return draft
    edits = draft.plan.edits
    known = {edit.at for edit in edits_of(edits, RestoreReasoning)} | {
        edit.at for edit in edits_of(edits, StripReasoning)
    }
    return draft.with_edits(tuple(edit for edit in found if edit.at not in known))


def _restorations(draft: Draft) -> Iterator[RestoreReasoning]:
    received, memory, policy = draft.received, draft.memory, draft.policy.reasoning
    messages = received.conversation.messages
    for at, anchor in memory.answered:
        run = range(at + 1, reply_end(messages, at))
        if brings_reasoning(messages, run, policy.rule):
            continue
        if policy.restore is not True and not _is_missed(received, run, policy.rule):
            continue
        print_ = reply_print(messages[number] for number in run)
        kept = next((reply.reasoning for reply in anchor.replies if reply.fingerprint == print_), "")
        # Signed reasoning is bound to everything before it: what went on without it once must go on without it.
        if not kept or (is_sealed(kept) and at != memory.line_at and not policy.rule.signatures):
            continue
        for position, payload in restorations(kept):
            yield RestoreReasoning(
                at=received.keys[run[min(position, len(run) - 1)]],
                payload=payload,
                tokens_after=_tokens(draft, payload),
            )


def _is_missed(received: Received, run: range, rule: ReasoningRule) -> bool:
    """Whether the provider refuses the request without the reasoning of this answer."""
    if not is_demanded(received.conversation.messages, run, rule.demands):
        return False
    return rule.demands != "named" or received.dialect.is_named(received.view, run)


def _tokens(draft: Draft, payload: str) -> int:
    parts = draft.received.dialect.restored_parts(payload)
    return sum(draft.scale.weigh(Message(role="assistant", parts=parts, digest=digest(payload))).parts)


def unbound(draft: Draft) -> Draft:
    """Without the signed reasoning behind a summary, where the provider would refuse it and cannot be asked to drop it.

    Only reasoning that was signed before the summary stood: what comes later is bound to the summary itself.
    """
    received = draft.received
    breaks = breaks_bound(received, draft.weighed.index, draft.plan, draft.policy)
    if not breaks or received.dialect.drop_option(received.view) is not None:
        return draft
    return draft.with_edits(
        strip_edits(
            received.conversation.messages,
            received.keys,
            lambda index: draft.weighed.weights[index].reasoning,
            replace(draft.policy.reasoning, rule=REFUSED),
            plan=draft.plan,
            alone=received.dialect.reasoning_alone,
        )
    )


def keeps_reasoning(received: Received, policy: Policy) -> bool:
    """Whether the answer's reasoning is worth keeping: not for a client that sends it back by itself."""
    if policy.mode != "prune" or policy.reasoning.restore is False or policy.replay_only:
        return False
    messages = received.conversation.messages
    last = after_last_assistant(messages) - 1
    if last < 0:
        return True
    start = last
    while start > 0 and messages[start - 1].role == "assistant":
        start -= 1
    return not brings_reasoning(messages, range(start, last + 1), policy.reasoning.rule)
