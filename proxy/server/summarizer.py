"""Getting a summary: the calls to the model that writes it, in the foreground while a client waits, or behind its back.

A summary call never fails a client's call: whatever goes wrong ends in None, three failures in a row rest the
conversation for five minutes, and one failure rests it for a while too, so that nothing is tried again at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from proxy.compaction.policy import NO_MODEL
from proxy.compaction.summary import Verdict
from proxy.conversation.edit import Plan, Summarise
from proxy.conversation.recall import Recall
from proxy.dialects.base import Dialect, Observation
from proxy.errors import ProxyError
from proxy.exchange.binding import dropping
from proxy.exchange.compact import (
    Need,
    fresh_body,
    made_without_model,
    summarise_edit,
    summary_calls,
    warm_body,
)
from proxy.exchange.policy import Policy
from proxy.exchange.receive import Received
from proxy.ledger.store import Ledger
from proxy.server.bounded import put
from proxy.server.engines.base import Engine
from proxy.server.relay import Exchange
from proxy.server.written import Written

WAIT_S = 30.0
"""Longest that a client waits for a summary: the most impatient ones give up at 60 s."""
BACKGROUND_S = 120.0
REST_S = 30.0
"""After one failure."""
LATCH_S = 300.0
"""After three in a row."""
_LATCH_AFTER = 3
_MOST_RESTING = 256
_MOST_BYTES = 4 * 1024 * 1024
_FINISHED = frozenset({"stop", "end_turn", "stop_sequence", "completed", "eos", "eos_token", ""})

log = structlog.get_logger("proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A summary that is being written in the background."""

    task: asyncio.Task[None]
    last: bytes
    """Prefix key of the last message that it covers."""


@dataclass(slots=True)
class _Rest:
    """Failures of one conversation in a row, and until when it rests."""

    failures: int = 0
    until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One summary call, for the ledger."""

    session: str
    """The conversation that it was made for."""
    model: str
    observation: Observation
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a summary needs besides the request."""

    session: str
    count: Callable[[str], int]
    recall: Recall
    summary_window: int | None
    """Window of the model that writes summaries; None when unknown."""


class Summarizer:
    """Makes summaries, for clients that wait and behind their backs, and remembers who failed."""

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        clock: Callable[[], float],
        on_spent: Callable[[Exchange, Spent], Any],
    ) -> None:
        self._engine = engine
        self._behind = Written(ledger, clock, writing_s=BACKGROUND_S)
        self._clock = clock
        self._on_spent = on_spent
        self._rests: OrderedDict[str, _Rest] = OrderedDict()
        self._hopeless: dict[str, None] = {}
        self._running: dict[str, _Run] = {}
        self._strict: dict[tuple[str, str], None] = {}
        """Upstreams and models that take no user's words behind a user's or a tool's, so no instruction there either."""

    async def found(self, session: str, received: Received, need: Need) -> Summarise | None:
        """A summary that was made in the background, by whichever process, and can stand here; None for none."""
        await self._behind.look(session)
        return self._behind.ready_for(received, need)

    def is_writing(self, session: str, received: Received) -> bool:
        """Whether a summary of this very history is being written behind the client's back."""
        run = self._running.get(session)
        return run is not None and run.last in received.keys

    def note_hopeless(self, session: str) -> None:
        """System text and tools alone are over the limit: said once a conversation, since nothing helps."""
        if session in self._hopeless:
            return
        put(self._hopeless, session, None)
        log.warning("fixed_part_over_limit", session=session)

    def rests(self, session: str) -> bool:
        """Whether this conversation's last summary calls failed too recently."""
        rest = self._rests.get(session)
        return rest is not None and rest.until > self._clock()

    async def now(
        self, exchange: Exchange, need: Need, received: Received, plan: Plan, policy: Policy, work: Work
    ) -> Summarise | None:
        """A summary for a client that waits, from the model in time, else without one where it must fit."""
        if not self.rests(work.session) and policy.compact.model != NO_MODEL:
            try:
                async with asyncio.timeout(WAIT_S):
                    edit = await self._joined(need, received, work.session)
                    if edit is None and not self.rests(work.session):
                        edit = await self._made(exchange, need, received, plan, policy, work)
                if edit is not None:
                    return edit
            except TimeoutError:
                self._failed(work.session, "timeout")
            except Exception as error:  # noqa: BLE001  the client's call goes on, whatever it was
                self._failed(work.session, type(error).__name__)
        return self.record(need, received, work) if need.must_fit or policy.compact.model == NO_MODEL else None

    def record(self, need: Need, received: Received, work: Work) -> Summarise | None:
        """A summary that no model writes; None when even that is not good enough."""
        text = made_without_model(need, received, work.count)
        edit, verdict = summarise_edit(need, received, text, finished=True, by_model=False, count=work.count)
        _note(work.session, need, edit, verdict, by_model=False)
        return edit

    async def _joined(self, need: Need, received: Received, session: str) -> Summarise | None:
        """The summary that is being written already, if it is of this history; it goes on when this client leaves."""
        if not self.is_writing(session, received):
            return None
        await asyncio.shield(self._running[session].task)
        return self._behind.ready_for(received, need)

    def begin(self, exchange: Exchange, need: Need, received: Received, plan: Plan, policy: Policy, work: Work) -> None:
        """Begin a summary behind the client's back; at most one a conversation."""
        behind, session = self._behind, work.session
        if policy.compact.model == NO_MODEL or session in self._running or self.rests(session):
            return
        if behind.ready_for(received, need) is not None:
            return

        async def run() -> None:
            edit, claimed = None, False
            try:
                if await behind.look(session) or behind.ready_for(received, need) is not None:
                    return
                claimed = True
                await behind.claim(session)
                async with asyncio.timeout(BACKGROUND_S):
                    edit = await self._made(exchange, need, received, plan, policy, work)
                if edit is not None:
                    await behind.put(session, edit)
            except TimeoutError:
                self._failed(session, "timeout")
            except Exception as error:  # noqa: BLE001  nobody waits for it: it may only be noted
                self._failed(session, type(error).__name__)
            finally:
                if claimed and edit is None:
                    await behind.release(session)
                self._running.pop(session, None)

        self._running[session] = _Run(task=asyncio.get_running_loop().create_task(run()), last=need.last)

    async def aclose(self) -> None:
        """Drop what runs in the background; nothing of it has been promised to anyone."""
        tasks = [run.task for run in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _made(
        self, exchange: Exchange, need: Need, received: Received, plan: Plan, policy: Policy, work: Work
    ) -> Summarise | None:
        text, finished = await self._written(exchange, need, received, plan, policy, work)
        if text is None:
            self._failed(work.session, "no_answer")
            return None
        edit, verdict = summarise_edit(need, received, text, finished=finished, by_model=True, count=work.count)
        _note(work.session, need, edit, verdict, by_model=True)
        if edit is None:
            self._failed(work.session, verdict.reason)
        else:
            self._rests.pop(work.session, None)
        return edit

    async def _written(
        self, exchange: Exchange, need: Need, received: Received, plan: Plan, policy: Policy, work: Work
    ) -> tuple[str | None, bool]:
        compact = policy.compact
        model = compact.model or received.conversation.model
        asked = exchange.route.upstream_name, model
        if not compact.model and need.fits_warm and asked not in self._strict:
            body = warm_body(need, received, plan, auto_cache=policy.auto_cache)
            body, header = dropping(received, plan, policy, body, work.recall)
            said = await self._asked(exchange, received.dialect, body, model, work.session, header)
            if asked not in self._strict:
                return said
        text: str | None = need.earlier
        finished = False
        for history in summary_calls(need, received, work.count, work.summary_window):
            body = fresh_body(need, received, compact, history, text or "", work.summary_window)
            text, finished = await self._asked(exchange, received.dialect, body, model, work.session)
            if text is None or not finished:
                break
        return text, finished

    async def _asked(
        self,
        exchange: Exchange,
        dialect: Dialect,
        body: bytes,
        model: str,
        session: str,
        header: tuple[bytes, bytes] | None = None,
    ) -> tuple[str | None, bool]:
        """One call's text and whether it finished by itself; None for any failure."""
        path = dialect.summary_target(exchange.route.rest_path, model)
        try:
            answer = await self._engine.send(exchange.side_request(path, body, header))
        except ProxyError as error:
            log.info("summary_failed", error=error.kind)
            return None, False
        reader = dialect.reader(stream=False, keep_text=True)
        size = 0
        try:
            while chunk := await answer.read():
                size += len(chunk)
                if size > _MOST_BYTES:
                    break
                reader.feed(chunk)
            complete = answer.complete
        finally:
            await answer.aclose()
        observation = reader.finish(complete=complete)
        await self._on_spent(
            exchange, Spent(session=session, model=model, observation=observation, status=answer.status)
        )
        if answer.status >= 400 or observation.outcome != "ok" or observation.tool_calls:
            log.info("summary_failed", status=answer.status, outcome=observation.outcome)
            refusal = dialect.refusal(answer.status, observation.error_text.encode())
            if refusal is not None and refusal.kind == "roles":
                put(self._strict, (exchange.route.upstream_name, model), None)
            return None, False
        return observation.text, observation.finish.lower() in _FINISHED

    def _failed(self, session: str, reason: str) -> None:
        rest = self._rests.setdefault(session, _Rest())
        rest.failures += 1
        rest.until = self._clock() + (LATCH_S if rest.failures >= _LATCH_AFTER else REST_S)
        self._rests.move_to_end(session)
        while len(self._rests) > _MOST_RESTING:
            self._rests.popitem(last=False)
        log.info("compaction_rests", session=session, reason=reason, failures=rest.failures)


def _note(session: str, need: Need, edit: Summarise | None, verdict: Verdict, *, by_model: bool) -> None:
    log.info(
        "compacted",
        session=session,
        by_model=by_model,
        accepted=verdict.accepted,
        reason=verdict.reason or None,
        canaries=round(verdict.canaries, 3),
        headings=round(verdict.headings, 2),
        before_tokens=need.before_tokens,
        after_tokens=edit.tokens_after if edit is not None else None,
    )
