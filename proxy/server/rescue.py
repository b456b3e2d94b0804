"""The one more try that an overflow is worth: learn the window, prune and compact for it, send once more.

And the other summary that a server wants whose chat template lets roles alternate.
"""

from dataclasses import replace

import structlog

from proxy.compaction.policy import NO_MODEL
from proxy.dialects.base import Refusal
from proxy.exchange.policy import Policy
from proxy.pruning.reasoning_rules import learned_rule
from proxy.server.call import Call, Shared
from proxy.server.decide import compacted, prepared_again, stored
from proxy.server.dispatch import REFUSED, Answer, dispatched
from proxy.server.engines.base import UpstreamResponse
from proxy.server.peeking import is_about_the_body, known_window, understood
from proxy.server.policies import alternating
from proxy.server.reconcile import learn

log = structlog.get_logger("proxy")

_PLAUSIBLE_SHARE = 0.5
"""Of a window: a request below that is refused for something else (an empty 400 may be), or the number is another's."""
_PLAUSIBLE_TOKENS = 1_000
_LEAST_RATIO = 0.5
"""Of our count to the provider's: beyond that, the number in the text is not what we take it for."""
_SAFETY = 0.95
"""Of a learned window that is aimed at: our count has just been proven too low, or was never checked."""


async def rescued(shared: Shared, call: Call, refusal: Refusal) -> Answer | None:
    """An overflow: make the request fit the window that the refusal named, and send it once more.

    None when it cannot be made to fit, or may not be: the client then sees the provider's own words.
    """
    ready, policy = call.ready, call.policy
    upstream, model = call.exchange.route.upstream_name, call.received.conversation.model
    if not _is_plausible(shared, call, refusal):
        return None
    window = refusal.window or _guessed(refusal, ready.context.total)
    # Of a limit that we knew the refusal teaches nothing: it is one of the input, and the window is larger.
    teaches = window != policy.max_input and not refusal.of_bytes
    if refusal.window is not None and teaches:
        await shared.habits.learn_window(upstream, model, window)
    if policy.mode != "prune" or ready.skipped in ("utility", "server_history", "held_out"):
        return None
    aim, named = _aim(refusal, window, ready.context.total), refusal.window is not None or refusal.over is not None
    if not await _made_to_fit(shared, call, aim, named=named):
        log.warning("not_rescued", session=ready.anchor.session, window=window, estimated=call.ready.context.total)
        call.policy, call.ready = policy, ready
        return None
    await stored(shared, call)
    answer = await _unless_refused(shared, call, await dispatched(call))
    if answer is None:
        call.policy, call.ready = policy, ready
        return None
    log.info("rescued", session=ready.anchor.session, window=window, estimated=call.ready.context.total)
    if refusal.window is None and teaches:
        # That a smaller body passes shows that its size was what was wrong.
        await shared.habits.learn_window(upstream, model, window, guessed=True)
    return answer


async def _made_to_fit(shared: Shared, call: Call, aim: int, *, named: bool) -> bool:
    """Whether the call, decided anew, is smaller than it was and than `aim`, as far as that is the window that was `named`.

    Our guess of the answer's length may stay unmet: the alternative is an error for certain.
    """
    policy, before = call.policy, call.ready.context.total
    for harder in (_harder(policy, aim), _hardest(policy, aim)):
        call.policy, had = harder, call.summary
        await _decided_anew(shared, call)
        if had is not None and call.ready.context.total >= aim:
            # It was made for a window that is none, or with too much behind it.
            call.summary = None
            await _decided_anew(shared, call)
        if call.ready.changed and call.ready.context.total < min(before, aim):
            return True
    return not named and call.ready.changed and call.ready.context.total < _SAFETY * before


async def _unless_refused(shared: Shared, call: Call, answer: UpstreamResponse) -> Answer | None:
    """The rescue's answer, or that to one more try where only its summary's place, or reasoning behind it, was refused."""
    held: list[bytes] = []
    refusal = await understood(shared, call, answer, held)
    if refusal is None and not is_about_the_body(answer):
        return answer, tuple(held)
    await answer.aclose()
    again = None
    if refusal is not None and refusal.kind == "roles" and call.ready.summarised and await alternates(shared, call):
        again = await sent_otherwise(shared, call)
    elif refusal is not None and refusal.reasoning == "altered":
        again = await sent_bound(shared, call, refusal)
    return (again, ()) if again is not None else None


def _aim(refusal: Refusal, window: int, total: int) -> int:
    """The size to come below, in our own count."""
    if refusal.window is None and refusal.over is None:
        # Nothing says how much is too much, and there is only this one try.
        return total // 2
    # Our count may be far from the provider's: at the first call of a tokenizer that we do not know.
    low = min(1.0, total / refusal.counted) if refusal.counted else 1.0
    return int(window * _SAFETY * max(low, _LEAST_RATIO))


def _guessed(refusal: Refusal, total: int) -> int:
    """A window that the refusal does not name: what is known is that the request was too long, or by how much."""
    return total - refusal.over if refusal.over and refusal.over < total else int(total * _SAFETY)


def _is_plausible(shared: Shared, call: Call, refusal: Refusal) -> bool:
    """Whether the request can have been too long for the window that is named, or else for the one that is known."""
    context = call.ready.context
    if refusal.window is not None:
        wanted = max(context.total + context.reserve, refusal.counted or 0)
        return wanted > _PLAUSIBLE_SHARE * refusal.window
    # A limit in bytes lies wherever a server has set it, often far below the model's window.
    if refusal.of_bytes or (window := known_window(shared, call)) is None:
        return context.total > _PLAUSIBLE_TOKENS
    return context.total + context.reserve > _PLAUSIBLE_SHARE * window


def _harder(policy: Policy, window: int) -> Policy:
    """Everything that may go goes, down to what protects the newest results."""
    prune = replace(policy.prune, policy="always", minimum_tokens=0)
    compact = replace(policy.compact, trigger="window")
    return replace(policy, window=window, prune=prune, compact=compact, rescues=True)


def _hardest(policy: Policy, window: int) -> Policy:
    """Whatever a model has seen may go, and the newest message alone stays for certain."""
    harder = _harder(policy, window)
    prune = replace(harder.prune, protect_tokens=0)
    return replace(harder, prune=prune, compact=replace(harder.compact, keep_recent_messages=1))


async def alternates(shared: Shared, call: Call) -> bool:
    """Whether it is news that this server wants roles to alternate; it is then remembered for the model."""
    if call.policy.alternates:
        return False
    await shared.habits.learn_alternates(call.exchange.route.upstream_name, call.received.conversation.model)
    call.policy = alternating(call.policy)
    return True


async def sent_otherwise(shared: Shared, call: Call) -> UpstreamResponse | None:
    """The answer to the call with another summary in the place of its own; None where there is none, or it is refused."""
    call.summary = None
    return await _sent_anew(shared, call)


async def sent_bound(shared: Shared, call: Call, refusal: Refusal) -> UpstreamResponse | None:
    """The answer to the call as to a model that binds reasoning to what stands before it; None where it is refused.

    That it does so is remembered.
    """
    reasoning = call.policy.reasoning
    if reasoning.rule.binds:
        return None
    await learn(shared, call, refusal, reconciled=False)
    call.policy = replace(call.policy, reasoning=replace(reasoning, rule=learned_rule(reasoning.rule, "bound")))
    return await _sent_anew(shared, call)


async def _sent_anew(shared: Shared, call: Call) -> UpstreamResponse | None:
    await _decided_anew(shared, call)
    if not call.ready.changed:
        return None
    await stored(shared, call)
    answer = await dispatched(call)
    if answer.status < REFUSED:
        return answer
    await answer.aclose()
    return None


async def _decided_anew(shared: Shared, call: Call) -> None:
    """The request under the call's policy, with the summary that it has or one that is due.

    Who has waited for one already gets a record that no model writes.
    """
    if call.waited:
        call.policy = replace(call.policy, compact=replace(call.policy.compact, model=NO_MODEL))
    call.ready = await prepared_again(shared, call, call.policy)
    if call.ready.need is not None and call.ready.need.now:
        await compacted(shared, call)
