"""A refusal that is about reasoning: what the documented way out is, and what it teaches about the model.

missing    the provider demands reasoning that the client dropped: it is put in again from the ledger
unwanted   the provider takes none: all of it goes
altered    it was signed for another prefix, account or model: all of it goes, where we had changed nothing ourselves
"""

from dataclasses import replace

import structlog

from proxy.dialects.base import Refusal
from proxy.exchange.policy import Policy
from proxy.exchange.ready import Ready
from proxy.pruning.reasoning_rules import REFUSED, Lesson, learned_rule
from proxy.server.call import Call, Shared
from proxy.server.decide import prepared_again

log = structlog.get_logger("proxy")

_LESSONS: dict[str, Lesson] = {"missing": "demanded", "unwanted": "refused"}


async def reconciled(shared: Shared, call: Call, refusal: Refusal) -> tuple[Policy, Ready] | None:
    """The same call with its reasoning as the provider wants it; None where nothing can be put in or taken out."""
    if call.policy.mode != "prune" or call.ready.skipped in ("refused", "server_history"):
        return None
    if refusal.reasoning == "altered" and call.ready.changed:
        return None
    wish = call.policy.reasoning
    lesson = _LESSONS.get(refusal.reasoning, "")
    rule = learned_rule(wish.rule, lesson) if lesson else REFUSED
    policy = replace(call.policy, reasoning=replace(wish, rule=rule))
    ready = await prepared_again(shared, call, policy)
    return (policy, ready) if ready.plan.edits != call.ready.plan.edits else None


async def learn(shared: Shared, call: Call, refusal: Refusal, *, reconciled: bool) -> None:
    """Remember for the model what the second try has shown. `reconciled`: it was not the client's own body."""
    upstream, model = call.exchange.route.upstream_name, call.received.conversation.model
    lesson: Lesson = _LESSONS.get(refusal.reasoning, "") if reconciled else "bound"
    if lesson:
        await shared.habits.learn_reasoning(upstream, model, lesson)
