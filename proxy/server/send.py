"""Sending a decided call, and the one more try that a refusal may be worth.

A refusal of what we asked for or rewrote: once more without it. An overflow: learn the window, prune and compact for it,
once more. Everything else is the provider's answer and goes to the client as it is.
"""

import time
from dataclasses import replace

import structlog

from proxy.dialects.base import Refusal
from proxy.exchange.prepare import as_it_came
from proxy.server.bounded import put
from proxy.server.call import Call, Shared
from proxy.server.decide import prepared_again, stored
from proxy.server.dispatch import REFUSED, Answer, dispatched
from proxy.server.engines.base import UpstreamResponse
from proxy.server.peeking import may_mean, refusal_in, understood
from proxy.server.reconcile import learn, reconciled
from proxy.server.rescue import alternates, rescued, sent_bound, sent_otherwise

log = structlog.get_logger("proxy")


async def sent(shared: Shared, call: Call) -> Answer:
    """The upstream's answer to the call, after at most one more try."""
    call.overhead_ms = (time.perf_counter() - call.started) * 1000 - call.exact_ms
    return await looked_into(shared, call, await dispatched(call))


async def looked_into(shared: Shared, call: Call, answer: UpstreamResponse) -> Answer:
    """The answer, or that to one more try where this one is a refusal which is worth it."""
    held: list[bytes] = []
    if not may_mean(shared, call, answer):
        return answer, ()
    try:
        refusal = await refusal_in(call, answer, held)
    except Exception as error:  # noqa: BLE001  whatever its reader trips over, the client can read it
        shared.watch.failed("refusal", error)
        return answer, tuple(held)
    again = await _again(shared, call, answer.status, refusal)
    return again if again is not None else (answer, tuple(held))


async def _again(shared: Shared, call: Call, status: int, refusal: Refusal | None) -> Answer | None:
    """The answer to a second try; None when there is nothing to try."""
    kind = refusal.kind if refusal is not None else ""
    ready = call.ready
    if kind == "overflow" and refusal is not None:
        return await rescued(shared, call, refusal)
    if kind == "reasoning" and refusal is not None:
        return await _reconciled(shared, call, refusal)
    if kind == "roles" and ready.summarised and await alternates(shared, call):
        return await _alternated(shared, call)
    about_ours = status in (400, 422) or (kind == "roles" and ready.changed)
    if not about_ours or not (ready.changed or ready.asked_usage or ready.marked):
        return None
    if kind == "usage_option" and ready.asked_usage:
        upstream = call.exchange.route.upstream_name
        shared.habits.silent.add(upstream)
        log.info("usage_not_asked", upstream=upstream)
        call.policy = replace(call.policy, ask_usage=False)
        call.ready = await prepared_again(shared, call, call.policy)
    elif kind == "cache_option" and ready.marked:
        _unmark(shared, call)
        call.policy = replace(call.policy, auto_cache=False)
        call.ready = await prepared_again(shared, call, call.policy)
    else:
        return await _original(shared, call, kind)
    return await dispatched(call), ()


async def _original(shared: Shared, call: Call, kind: str) -> Answer | None:
    """The answer to the client's own bytes; None where the first refusal was about these, too. `kind`: of that refusal."""
    ready = call.ready
    _as_it_came(shared, call)
    answer = await dispatched(call)
    if answer.status < REFUSED and ready.marked and not ready.changed:
        # The breakpoints were all that we had added, whatever the refusal's words.
        _unmark(shared, call)
    if kind or not ready.changed or ready.new_edits:
        return answer, ()
    held: list[bytes] = []
    refusal = await understood(shared, call, answer, held)
    if refusal is None or refusal.kind != "overflow":
        return answer, tuple(held)
    # What stands there the provider had taken before, and without it the history no longer fits: the mistake is the client's.
    await answer.aclose()
    call.ready, call.failed_open = ready, ""
    return None


def _unmark(shared: Shared, call: Call) -> None:
    """Set this model no more cache breakpoints: one extra try is enough."""
    upstream, model = call.exchange.route.upstream_name, call.received.conversation.model
    put(shared.habits.unmarked, (upstream, model), None)
    log.info("cache_not_marked", upstream=upstream, model=model)


def _as_it_came(shared: Shared, call: Call) -> None:
    """The call becomes the client's own bytes: what we made of them was refused."""
    ready = call.ready
    log.warning("rewrite_refused", session=ready.anchor.session, edits=len(ready.sent_plan.edits))
    shared.watch.metrics.failed("refused")
    call.failed_open = "refused"
    call.ready = as_it_came(ready, call.memory, call.policy, call.scale, call.learned)


async def _reconciled(shared: Shared, call: Call, refusal: Refusal) -> Answer | None:
    """A refusal about reasoning: once more as the provider wants it, or as the client sent it; None for neither.

    What the second try shows is remembered for the model; where it is refused too, nothing of it stays.
    """
    before = call.policy, call.ready
    found = await reconciled(shared, call, refusal)
    if found is not None:
        call.policy, call.ready = found
        await stored(shared, call)
        answer = await dispatched(call)
        if answer.status < REFUSED:
            log.info("reasoning_reconciled", session=call.ready.anchor.session, wrong=refusal.reasoning)
            await learn(shared, call, refusal, reconciled=True)
            return answer, ()
        await answer.aclose()
        call.policy, call.ready = before
        await stored(shared, call)
    if not call.ready.changed:
        return None
    _as_it_came(shared, call)
    answer = await dispatched(call)
    if answer.status < REFUSED:
        await learn(shared, call, refusal, reconciled=False)
        return answer, ()
    held: list[bytes] = []
    second = await understood(shared, call, answer, held)
    if (
        refusal.reasoning != "altered"
        or second is None
        or not (second.kind == "overflow" or second.reasoning == "altered")
    ):
        return answer, tuple(held)
    # The history no longer fits without our edits, or its reasoning was signed behind earlier ones; behind all it was refused.
    original, call.policy = call.ready, before[0]
    again = await sent_bound(shared, call, refusal)
    if again is not None:
        return again, ()
    call.ready = original
    return answer, tuple(held)


async def _alternated(shared: Shared, call: Call) -> Answer:
    """Roles must alternate, and our summary stood beside a user message: once more with another, else as it came."""
    ready = call.ready
    answer = await sent_otherwise(shared, call)
    if answer is None:
        call.ready = ready
        _as_it_came(shared, call)
        answer = await dispatched(call)
    return answer, ()
