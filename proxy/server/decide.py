"""From a body to a decided call: read, recognise, remember, predict, decide."""

import time
from dataclasses import replace

import structlog

from proxy.compaction.policy import is_hopeless
from proxy.conversation.steps import Steps
from proxy.dialects.base import Dialect
from proxy.dialects.labels import LABEL_HEADERS
from proxy.errors import StoreError
from proxy.exchange.compact import Need
from proxy.exchange.foregone import goes_as_it_came
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import as_it_came, is_held_out, prepare
from proxy.exchange.queue import said
from proxy.exchange.ready import Ready, read_lately, reads_more_later
from proxy.exchange.receive import Received
from proxy.server.ahead import Ahead, hands_off
from proxy.server.behind import begun, work_of
from proxy.server.call import Call, Shared
from proxy.server.habits import Habit
from proxy.server.learning import pupil
from proxy.server.past import remember
from proxy.server.policies import Known
from proxy.server.reading import read, weigh_all
from proxy.server.relay import Exchange
from proxy.settings.values import Mode
from proxy.tokens.pieces import PIECE_CHARS

_MODE_HEADER = "x-context-mode"
_READ_HEADERS = frozenset(name.encode() for name in (_MODE_HEADER, *LABEL_HEADERS))

log = structlog.get_logger("proxy")


async def decided(shared: Shared, exchange: Exchange, dialect: Dialect, raw: bytes) -> Call | Ahead | None:
    """The call, ready to be sent; None when its body is not ours to read. Raises BodyTooLarge.

    `Ahead` where it can be sent at once, since nothing is left to decide about it.
    """
    started = time.perf_counter()
    headers = _wishes(exchange)
    received = await read(shared, exchange, dialect, headers, raw)
    if received is None:
        return None
    try:
        call = await _predicted(shared, exchange, dialect, raw, received, headers, started)
    except Exception as error:  # noqa: BLE001  whatever trips here, the client's own bytes can still go out
        shared.watch.failed("decide", error)
        return None
    if isinstance(call, Ahead):
        return call
    # Mostly there is nothing to wait for.
    if shared.exact.enabled:
        await counted(shared, call)
    if call.ready.need is not None or is_hopeless(call.ready.context, call.policy.compact):
        await compacted(shared, call)
    if _is_unstored(call):
        await stored(shared, call)
    if call.queued:
        await _said(shared, call)
    return call


def _wishes(exchange: Exchange) -> dict[str, str]:
    """The headers that are read, by lower-case name."""
    # Most calls have none of them.
    if _READ_HEADERS.isdisjoint(exchange.named):
        return {}
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in exchange.client_headers
        if name in _READ_HEADERS
    }


def _policy(
    shared: Shared, upstream: str, received: Received, known: Known, habit: Habit, *, counts_only: bool
) -> Policy:
    """The settings' policy with what was learned meanwhile."""
    settled, habits = known.policy, shared.habits
    return shared.policies.after_lessons(
        known,
        ask_usage=settled.ask_usage and not received.view.asks_usage and upstream not in habits.silent,
        auto_cache=settled.auto_cache and (upstream, received.conversation.model) not in habits.unmarked,
        alternates=habit.alternates,
        replay_only=counts_only,
        lesson=habit.reasoning,
        lengths=shared.lifetimes.known(),
    )


async def _predicted(
    shared: Shared,
    exchange: Exchange,
    dialect: Dialect,
    raw: bytes,
    received: Received,
    headers: dict[str, str],
    started: float,
) -> Call | Ahead:
    """The call as memory, settings and prices have it, before any summary."""
    upstream, model = exchange.route.upstream_name, received.conversation.model
    habit = shared.habits.known(upstream, model) or await shared.habits.of(upstream, model)
    memory = await remember(shared.ledger, received)
    session = memory.line.session if memory.line is not None else ""
    queued = shared.board.queued(session)
    known = shared.policies.known(upstream, model, _mode(shared, headers, session), habit.window)
    encoding = known.encoding
    scale = shared.scales.get(encoding, dialect.name, model)
    asked = upstream, pupil(received.conversation), encoding
    learned = shared.estimates.known(*asked) or await shared.estimates.get(*asked)
    # What a smaller body holds is counted at one go, where its weight is needed.
    small = len(received.view.body) <= PIECE_CHARS
    if not small:
        await weigh_all(shared, received, scale, known.policy)
    counts_only = dialect.is_count(exchange.route.rest_path)
    policy = _policy(shared, upstream, received, known, habit, counts_only=counts_only)

    call = Call(
        exchange=exchange,
        dialect=dialect,
        raw=raw,
        received=received,
        memory=memory,
        known=known,
        policy=policy,
        scale=scale,
        learned=learned,
        started=started,
        queued=queued,
        counts_only=counts_only,
    )
    if small and not counts_only and not shared.exact.enabled and goes_as_it_came(received, memory, policy, queued):
        return Ahead(shared, call)
    return await shared.pace.through(_prepared(shared, call))


def _prepared(shared: Shared, call: Call) -> Steps[Call]:
    """The call, decided; where that trips, it goes out as it came."""
    now = time.time()
    try:
        call.ready = yield from prepare.steps(
            call.received,
            call.memory,
            call.policy,
            call.scale,
            now=now,
            held_out=is_held_out(call.received, call.memory, call.policy),
            learned=call.learned,
            queued=call.queued,
        )
    except Exception as error:  # noqa: BLE001  a decision that trips must not break the call
        hands_off(shared, call, error, now)
    return call


def _mode(shared: Shared, headers: dict[str, str], session: str) -> Mode:
    """The request's own wish, as far as nobody has ordered less while running; else what is in force."""
    in_force = shared.board.mode_of(session)
    if not headers:
        return in_force
    match headers.get(_MODE_HEADER, "").strip().lower():
        case "":
            return in_force
        case "off" | "observe" | "prune" as wish:
            return shared.board.allowed(wish, session)
        case _:
            # Not the value: what stands in the wrong header may be a key.
            log.warning("unknown_mode", header=_MODE_HEADER, expected="off, observe or prune", mode=in_force)
            return in_force


async def _said(shared: Shared, call: Call) -> None:
    """Messages that stand in what goes out no longer wait."""
    known = said(call.ready.sent_plan)
    call.queued = tuple(message for message in call.queued if message.id in known)
    if call.queued:
        await shared.board.drop(call.ready.anchor.session, known)


async def unsaid(shared: Shared, call: Call, *, came_through: bool) -> None:
    """What this call did not say after all waits again. A plan that has it in spite of that takes it no second time.

    `came_through`: the provider has read what went out last, which is not always what was decided first.
    """
    heard = said(call.ready.sent_plan) if came_through else frozenset()
    back = tuple(message for message in call.queued if message.id not in heard)
    if back:
        await shared.board.give_back(call.ready.anchor.session, back)


async def counted(shared: Shared, call: Call) -> None:
    """Decided anew by the provider's own count, where the estimate alone cannot decide. Never raises."""
    try:
        question = shared.exact.wanted(call.exchange, call.ready, call.policy, call.learned)
        if question is None:
            return
        asked = time.perf_counter()
        try:
            tokens = await shared.exact.count(call.exchange, call.ready, question)
        finally:
            call.exact_ms = (time.perf_counter() - asked) * 1000
        if tokens is not None:
            policy = replace(call.policy, correction=tokens - call.ready.estimated, doubt=0.0)
            call.ready = await prepared_again(shared, call, policy)
            call.policy, call.exact = policy, tokens
    except Exception as error:  # noqa: BLE001  the estimate stands
        shared.watch.failed("exact", error)


async def compacted(shared: Shared, call: Call) -> None:
    """A summary where one is due: now, from the shelf or from a model, or begun in the background. Never raises."""
    if call.ready.need is None:
        if is_hopeless(call.ready.context, call.policy.compact):
            shared.summarizer.note_hopeless(call.ready.anchor.session)
        return
    try:
        await _compacted(shared, call, call.ready.need)
    except Exception as error:  # noqa: BLE001  the call goes on as it was decided before
        shared.watch.failed("compact", error)


async def _compacted(shared: Shared, call: Call, need: Need) -> None:
    received, policy = call.received, call.policy
    work, plan = work_of(shared, call), call.ready.plan
    may_have_one = shared.newcomers.may_have_one(work.session, is_new=call.memory.line is None)
    if need.now:
        call.summary = await shared.summarizer.found(work.session, received, need)
    if call.summary is not None:
        call.ready = await prepared_again(shared, call, policy)
        if not call.ready.context.overflows:
            return
    if not need.now:
        if not may_have_one or reads_more_later(call.ready, policy):
            return
        call.later = received
        # Else nothing is cached yet that the summary could read: both calls would pay for the same prefix.
        if need.span.last < read_lately(call.ready, call.memory, policy):
            begun(shared, call)
        return
    if call.summary is None and need.can_wait and shared.summarizer.is_writing(work.session, received):
        return
    # None is ready, or the history has outgrown it.
    call.waited = True
    call.summary = await shared.summarizer.now(call.exchange, need, received, plan, policy, work) or call.summary
    if call.summary is not None:
        call.ready = await prepared_again(shared, call, policy)


async def prepared_again(shared: Shared, call: Call, policy: Policy) -> Ready:
    """The same request under another policy, or with the summary that was decided for it."""
    steps = prepare.steps(
        call.received,
        call.memory,
        policy,
        call.scale,
        now=call.ready.anchor.at,
        held_out=is_held_out(call.received, call.memory, policy),
        learned=call.learned,
        queued=call.queued,
        summary=call.summary,
    )
    return await shared.pace.through(steps)


def _is_unstored(call: Call) -> bool:
    """Whether the next call would ask in vain for this one's plan: also one that has only lost edits has a name of its own."""
    plan = call.ready.plan
    return bool(plan.edits) and plan is not call.memory.plan and not call.counts_only


async def stored(shared: Shared, call: Call) -> None:
    """New decisions are stored before anything is sent by them; where that fails, nothing is."""
    try:
        await shared.ledger.decide(call.ready.anchor, call.ready.plan)
    except StoreError as error:
        shared.watch.failed("decide", error)
        call.failed_open = "decide"
        call.ready = as_it_came(call.ready, call.memory, call.policy, call.scale, call.learned)
