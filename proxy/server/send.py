"""Sending a decided call, and the one more try that a refusal may be worth.

A refusal of what we asked for or rewrote: once more without it. An overflow: learn the window, prune and compact for it,
once more. Everything else is the provider's answer and goes to the client as it is.
"""

import time
from dataclasses import replace

import structlog

from proxy.compaction.policy import NO_MODEL
from proxy.dialects.base import Refusal
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import as_it_came
from proxy.server.bounded import put
from proxy.server.call import Call, Shared
from proxy.server.decide import compacted, prepared_again, stored
from proxy.server.engines.base import UpstreamResponse
from proxy.server.peeking import may_mean, refusal_in
from proxy.server.policies import alternating
from proxy.server.reconcile import learn, reconciled
from proxy.wire.headers import listed

log = structlog.get_logger("proxy")

Answer = tuple[UpstreamResponse, tuple[bytes, ...]]
"""An upstream's answer and the chunks that were already taken from it."""

_REFUSED = 400
_PLAUSIBLE_SHARE = 0.5
"""Of a window: a request below that is refused for something else (an empty 400 may be), or the number is another's."""
_PLAUSIBLE_TOKENS = 1_000
_LEAST_RATIO = 0.5
"""Of our count to the provider's: beyond that, the number in the text is not what we take it for."""
_SAFETY = 0.95
"""Of a learned window that is aimed at: our count has just been proven too low, or was never checked."""


async def sent(shared: Shared, call: Call) -> Answer:
    """The upstream's answer to the call, after at most one more try."""
    call.overhead_ms = (time.perf_counter() - call.started) * 1000 - call.exact_ms
    return await looked_into(shared, call, await _send(call))


async def looked_into(shared: Shared, call: Call, answer: UpstreamResponse) -> Answer:
    """The answer, or that to one more try where this one is a refusal which is worth it."""
    held: list[bytes] = []
    if not may_mean(call, answer):
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
        return await _rescued(shared, call, refusal)
    if kind == "reasoning" and refusal is not None:
        return await _reconciled(shared, call, refusal)
    if kind == "roles" and ready.summarised and _alternates(shared, call):
        return await _alternated(shared, call)
    about_ours = status in (400, 413, 422) or (kind == "roles" and ready.changed)
    if not about_ours or not (ready.changed or ready.asked_usage or ready.marked):
        return None
    if kind == "usage_option" and ready.asked_usage:
        upstream = call.exchange.route.upstream_name
        shared.habits.silent.add(upstream)
        log.info("usage_not_asked", upstream=upstream)
        call.policy = replace(call.policy, ask_usage=False)
        call.ready = prepared_again(shared, call, call.policy)
    elif kind == "cache_option" and ready.marked:
        _unmark(shared, call)
        call.policy = replace(call.policy, auto_cache=False)
        call.ready = prepared_again(shared, call, call.policy)
    else:
        return await _original(shared, call, kind)
    return await _send(call), ()


async def _original(shared: Shared, call: Call, kind: str) -> Answer | None:
    """The answer to the client's own bytes; None where the first refusal was about these, too. `kind`: of that refusal."""
    ready = call.ready
    _as_it_came(shared, call)
    answer = await _send(call)
    if answer.status < _REFUSED:
        if ready.marked and not ready.changed:
            # The breakpoints were all that we had added, whatever the refusal's words.
            _unmark(shared, call)
        return answer, ()
    if kind or not ready.changed or ready.new_edits:
        return answer, ()
    held: list[bytes] = []
    refusal = await refusal_in(call, answer, held)
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
    found = reconciled(shared, call, refusal)
    if found is not None:
        call.policy, call.ready = found
        await stored(shared, call)
        answer = await _send(call)
        if answer.status < _REFUSED:
            log.info("reasoning_reconciled", session=call.ready.anchor.session, wrong=refusal.reasoning)
            await learn(shared, call, refusal, reconciled=True)
            return answer, ()
        await answer.aclose()
        call.policy, call.ready = before
        await stored(shared, call)
    if not call.ready.changed:
        return None
    _as_it_came(shared, call)
    answer = await _send(call)
    if answer.status < _REFUSED:
        await learn(shared, call, refusal, reconciled=False)
    return answer, ()


def _alternates(shared: Shared, call: Call) -> bool:
    """Whether it is news that this server wants roles to alternate; it is then remembered for the model."""
    upstream, model = call.exchange.route.upstream_name, call.received.conversation.model
    if call.policy.alternates:
        return False
    put(shared.habits.alternating, (upstream, model), None)
    log.info("roles_alternate", upstream=upstream, model=model)
    call.policy = alternating(call.policy)
    return True


async def _alternated(shared: Shared, call: Call) -> Answer:
    """Roles must alternate, and our summary stood beside a user message: once more with another, else as it came."""
    ready = call.ready
    answer = await _sent_otherwise(shared, call)
    if answer is None:
        call.ready = ready
        _as_it_came(shared, call)
        answer = await _send(call)
    return answer, ()


async def _sent_otherwise(shared: Shared, call: Call) -> UpstreamResponse | None:
    """The answer to the call with another summary in the place of its own; None where there is none, or it is refused."""
    await _summarised_anew(shared, call)
    if not call.ready.changed:
        return None
    await stored(shared, call)
    answer = await _send(call)
    if answer.status < _REFUSED:
        return answer
    await answer.aclose()
    return None


async def _summarised_anew(shared: Shared, call: Call) -> None:
    """The request with another summary than it had; who has waited for one gets a record that no model writes."""
    call.summary = None
    if call.waited:
        call.policy = replace(call.policy, compact=replace(call.policy.compact, model=NO_MODEL))
    await _decided_anew(shared, call)


async def _decided_anew(shared: Shared, call: Call) -> None:
    """The request under the call's policy, with the summary that it has or one that is due."""
    call.ready = prepared_again(shared, call, call.policy)
    if call.ready.need is not None and call.ready.need.now:
        await compacted(shared, call)


async def _rescued(shared: Shared, call: Call, refusal: Refusal) -> Answer | None:
    """An overflow: make the request fit the window that the refusal named, and send it once more.

    None when it cannot be made to fit, or may not be: the client then sees the provider's own words.
    """
    ready, policy = call.ready, call.policy
    upstream, model = call.exchange.route.upstream_name, call.received.conversation.model
    if not _is_plausible(call, refusal):
        return None
    window = refusal.window or _guessed(refusal, ready.context.total)
    # Of a limit that we knew the refusal teaches nothing: it is one of the input, and the window is larger.
    teaches = window != policy.max_input and not refusal.of_bytes
    if refusal.window is not None and teaches:
        await shared.habits.learn_window(upstream, model, window)
    if policy.mode != "prune" or ready.skipped in ("utility", "server_history", "held_out"):
        return None
    # In our own count, which may be far from the provider's: at the first call of a tokenizer that we do not know.
    low = min(1.0, ready.context.total / refusal.counted) if refusal.counted else 1.0
    aim = int(window * _SAFETY * max(low, _LEAST_RATIO))
    call.policy, had = _harder(policy, aim), call.summary
    await _decided_anew(shared, call)
    if had is not None and call.ready.context.total >= aim:
        # It was made for a window that is none.
        await _summarised_anew(shared, call)
    # Our guess of the answer's length may stay unmet: the alternative is an error for certain.
    fits = call.ready.context.total < min(ready.context.total, aim)
    if not fits or not call.ready.changed:
        log.warning("not_rescued", session=ready.anchor.session, window=window, estimated=call.ready.context.total)
        call.policy, call.ready = policy, ready
        return None
    await stored(shared, call)
    answer = await _with_other_roles(shared, call, await _send(call))
    if answer is None:
        call.policy, call.ready = policy, ready
        return None
    log.info("rescued", session=ready.anchor.session, window=window, estimated=call.ready.context.total)
    if refusal.window is None and teaches:
        # That a smaller body passes shows that its size was what was wrong.
        await shared.habits.learn_window(upstream, model, window)
    return answer, ()


async def _with_other_roles(shared: Shared, call: Call, answer: UpstreamResponse) -> UpstreamResponse | None:
    """The rescue's answer, or that to one more try where only its summary's place was refused; None for any refusal."""
    if answer.status < _REFUSED:
        return answer
    refusal = await refusal_in(call, answer, [])
    await answer.aclose()
    if refusal is None or refusal.kind != "roles" or not call.ready.summarised or not _alternates(shared, call):
        return None
    return await _sent_otherwise(shared, call)


def _guessed(refusal: Refusal, total: int) -> int:
    """A window that the refusal does not name: what is known is that the request was too long, or by how much."""
    return total - refusal.over if refusal.over and refusal.over < total else int(total * _SAFETY)


def _is_plausible(call: Call, refusal: Refusal) -> bool:
    """Whether the request can have been too long for the window that is named, or else for the one that is known."""
    context = call.ready.context
    if refusal.window is not None:
        wanted = max(context.total + context.reserve, refusal.counted or 0)
        return wanted > _PLAUSIBLE_SHARE * refusal.window
    if context.window is None:
        return context.total > _PLAUSIBLE_TOKENS
    return context.total + context.reserve > _PLAUSIBLE_SHARE * context.window


def _harder(policy: Policy, window: int) -> Policy:
    """Everything that may go goes, down to what protects the newest results."""
    prune = replace(policy.prune, policy="always", minimum_tokens=0)
    compact = replace(policy.compact, trigger="window")
    return replace(policy, window=window, prune=prune, compact=compact, rescues=True)


async def _send(call: Call) -> UpstreamResponse:
    started = time.perf_counter()
    ready = call.ready
    if ready.body is call.received.view.body:
        answer = await call.exchange.send_upstream(call.raw)
    else:
        drop, add = [b"content-encoding"], []
        if ready.header is not None:
            add.append(listed(call.exchange.client_headers, *ready.header))
        if ready.asked_usage:
            # What we asked for must be taken out again, and that goes only in plain text.
            add.append((b"accept-encoding", b"identity"))
        drop += [name for name, _ in add]
        answer = await call.exchange.send_upstream(ready.body, drop=drop, add=add)
    call.upstream_ms = (time.perf_counter() - started) * 1000
    return answer
