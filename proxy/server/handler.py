"""A modelled call, top to bottom: read, recognise, remember, decide, send, relay, settle.

Whatever fails of ours on the way, the client's own bytes go out and the call goes on; `failed_open` says which stage it
was. Only what is the client's fault, or the provider's, becomes an error.
"""

import time
from dataclasses import dataclass, replace

import structlog

from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.base import Dialect, Observation, Reader, Refusal
from proxy.errors import BodyTooLarge, ProxyError, StoreError
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import Ready, as_it_came, prepare
from proxy.exchange.receive import NO_MEMORY, Memory, Received, receive
from proxy.exchange.settle import Circumstances, settle
from proxy.ledger.records import Turn
from proxy.ledger.store import Ledger
from proxy.server.caller import caller_of
from proxy.server.engines.base import Engine, UpstreamResponse
from proxy.server.events import fields_of
from proxy.server.learning import Estimates
from proxy.server.past import remember
from proxy.server.policies import Known, Policies
from proxy.server.relay import End, Exchange, relay
from proxy.server.summarizer import Spent, Summarizer, Work
from proxy.server.tokenizers import counter, tokenizer_for, warm
from proxy.settings.values import Mode, Settings
from proxy.tokens.estimate import Memo, Scale
from proxy.tokens.learn import Learned
from proxy.wire.headers import first
from proxy.wire.sse_filter import EventFilter

log = structlog.get_logger("proxy")

# A rewritten body that is refused so is sent once more as it came; other refusals are not about the body.
_ABOUT_THE_BODY = frozenset({400, 413, 422})
_MOST_ERROR_BYTES = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Call:
    """One modelled call on its way."""

    exchange: Exchange
    dialect: Dialect
    raw: bytes
    """The body as it came, encodings and all."""
    received: Received
    memory: Memory
    known: Known
    scale: Scale
    ready: Ready
    learned: Learned
    started: float
    reader: Reader | None = None
    status: int = 0
    overhead_ms: float = 0.0
    failed_open: str = ""


class Handler:
    """Everything that outlives a call: the ledger, the memos, what was learned of hosts."""

    def __init__(self, settings: Settings, ledger: Ledger, engine: Engine) -> None:
        self.settings = settings
        self.ledger = ledger
        self.mode: Mode = settings.mode
        self._policies = Policies(settings)
        self._recall = Recall()
        self._memo = Memo()
        self._estimates = Estimates(ledger, enabled=settings.estimate.learn)
        self._summarizer = Summarizer(engine, time.time, self._spent)
        self._silent_hosts: set[str] = set()
        """Upstreams that refuse to be asked for usage."""

    async def __call__(self, exchange: Exchange) -> None:
        """Take one call from the App."""
        dialect = dialect_for(exchange.route.rest_path) if exchange.method == "POST" else None
        if dialect is None:
            await relay(exchange)
            return
        raw = await exchange.read_body()
        started = time.perf_counter()
        call = await self._prepared(exchange, dialect, raw, started)
        if call is None:
            await exchange.respond(await exchange.send_upstream(raw))
            return
        exchange.on_end = lambda end: self._settle(call, end)
        answer, held = await self._sent(call)
        await self._relayed(call, answer, held)

    async def aclose(self) -> None:
        """Let go of what runs in the background."""
        await self._summarizer.aclose()

    async def _prepared(self, exchange: Exchange, dialect: Dialect, raw: bytes, started: float) -> Call | None:
        """The call, decided; None when its body is not ours to read."""
        try:
            body = exchange.decode(raw)
        except BodyTooLarge:
            raise
        except ProxyError:
            return None
        names = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.client_headers}
        caller = caller_of(exchange.client_headers, exchange.query, key_name=exchange.caller)
        try:
            received = receive(dialect, exchange.route.rest_path, names, body, caller=caller, recall=self._recall)
        except Exception as error:  # noqa: BLE001  a reader that trips must not break the call
            _failed("receive", error)
            return None
        if received is None:
            return None
        upstream, model = exchange.route.upstream_name, received.conversation.model
        known = self._policies.known(upstream, model, self._mode(names), None)
        encoding = tokenizer_for(model, known.encoding_wish)
        scale = Scale(encoding=encoding, count=counter(encoding), dialect=dialect.name, model=model, memo=self._memo)
        memory = await remember(self.ledger, received)
        learned = await self._estimates.get(upstream, model, encoding)
        await warm(scale, received.conversation)
        policy = known.policy
        if upstream in self._silent_hosts or received.view.asks_usage:
            policy = replace(policy, ask_usage=False)
        failed_open = ""
        try:
            ready = prepare(received, memory, policy, scale, recall=self._recall, now=time.time(), learned=learned)
        except Exception as error:  # noqa: BLE001  a decision that trips must not break the call
            _failed("prepare", error)
            failed_open = "prepare"
            ready = prepare(received, NO_MEMORY, _hands_off(policy), scale, recall=self._recall, now=time.time())
        call = Call(
            exchange=exchange, dialect=dialect, raw=raw, received=received, memory=memory, known=known, scale=scale,
            ready=ready, learned=learned, started=started, failed_open=failed_open,
        )  # fmt: skip
        if ready.need is not None and not failed_open:
            await self._compacted(call, policy)
        if call.ready.new_edits:
            await self._decide(call, policy)
        return call

    async def _compacted(self, call: Call, policy: Policy) -> None:
        """A summary where one is due: now, from the shelf or from a model, or begun in the background."""
        need, received = call.ready.need, call.received
        if need is None:
            return
        work = self._work(call, policy)
        if not need.now:
            self._summarizer.begin(call.exchange, need, received, call.ready.plan, policy, work)
            return
        edit = self._summarizer.ready_for(received)
        if edit is None:
            edit = await self._summarizer.now(call.exchange, need, received, call.ready.plan, policy, work)
        if edit is not None:
            now = call.ready.anchor.at
            call.ready = prepare(received, call.memory, policy, call.scale, recall=self._recall, now=now, summary=edit)

    def _work(self, call: Call, policy: Policy) -> Work:
        model = policy.compact.model
        known = self._policies.known(call.exchange.route.upstream_name, model, "off", None) if model else None
        return Work(
            session=call.ready.anchor.session,
            count=call.scale.weigh_text,
            recall=self._recall,
            summary_window=known.policy.window if known is not None else policy.window,
        )

    async def _spent(self, exchange: Exchange, spent: Spent) -> None:
        """A summary call is a row of its own: it is not the client's spending."""
        usage = spent.observation.usage
        turn = Turn(
            session="",
            turn=0,
            at=time.time(),
            upstream=exchange.route.upstream_name,
            model=spent.model,
            dialect="",
            basis="estimated",
            estimated=0,
            usage=usage,
            outcome="ok" if spent.status < 400 else "error",
            status=spent.status,
            purpose="summary",
        )
        try:
            await self.ledger.settle(None, turn)
        except StoreError as error:
            _failed("settle", error)

    def _mode(self, headers: dict[str, str]) -> Mode:
        wish = headers.get("x-context-mode", "")
        match wish:
            case "off" | "observe" | "prune":
                return wish
            case _:
                return self.mode

    async def _decide(self, call: Call, policy: Policy) -> None:
        """New decisions are stored before anything is sent by them; where that fails, nothing is."""
        try:
            await self.ledger.decide(call.ready.anchor, call.ready.plan)
        except StoreError as error:
            _failed("decide", error)
            call.failed_open = "decide"
            call.ready = as_it_came(call.ready, call.memory, policy, call.scale, call.learned)

    async def _sent(self, call: Call) -> tuple[UpstreamResponse, tuple[bytes, ...]]:
        """The upstream's answer, after one more try with the client's own bytes where ours were refused."""
        call.overhead_ms = (time.perf_counter() - call.started) * 1000
        answer = await self._send(call)
        ready = call.ready
        if answer.status not in _ABOUT_THE_BODY or not (ready.changed or ready.asked_usage):
            return answer, ()
        text, held = await _read_error(answer)
        refusal = call.dialect.refusal(answer.status, text)
        if refusal is not None and refusal.kind == "overflow":
            # The client's own bytes are longer still.
            return answer, held
        return await self._again(call, refusal)

    async def _again(self, call: Call, refusal: Refusal | None) -> tuple[UpstreamResponse, tuple[bytes, ...]]:
        """Send the call once more: without the wish for usage if that was refused, else as it came."""
        policy = call.known.policy
        if call.ready.asked_usage and refusal is not None and refusal.kind == "usage_option":
            self._silent_hosts.add(call.exchange.route.upstream_name)
            log.info("usage_not_asked", upstream=call.exchange.route.upstream_name)
            policy = replace(policy, ask_usage=False)
            call.ready = prepare(
                call.received,
                call.memory,
                policy,
                call.scale,
                recall=self._recall,
                now=call.ready.anchor.at,
                learned=call.learned,
            )
        else:
            log.warning("rewrite_refused", session=call.ready.anchor.session, edits=len(call.ready.sent_plan.edits))
            call.failed_open = "refused"
            call.ready = as_it_came(call.ready, call.memory, policy, call.scale, call.learned)
        return await self._send(call), ()

    async def _send(self, call: Call) -> UpstreamResponse:
        if call.ready.body is call.received.view.body:
            return await call.exchange.send_upstream(call.raw)
        return await call.exchange.send_upstream(call.ready.body, drop=(b"content-encoding",))

    async def _relayed(self, call: Call, answer: UpstreamResponse, held: tuple[bytes, ...]) -> None:
        """The answer to the client, a copy to the reader."""
        kind = (first(answer.headers, b"content-type") or b"").lower()
        streams = kind.startswith(b"text/event-stream")
        call.status = answer.status
        call.reader = call.dialect.reader(stream=streams)
        hides = call.ready.asked_usage and streams
        await call.exchange.respond(
            answer,
            extra=_notes(call.ready),
            held=held,
            transform=EventFilter(call.dialect.is_usage_only) if hides else None,
            observe=call.reader.feed,
        )

    async def _settle(self, call: Call, end: End) -> None:
        """Remember and measure, after the last byte. Never raises."""
        try:
            observation = _observed(call.reader, end)
            circumstances = Circumstances(
                upstream=call.exchange.route.upstream_name,
                status=call.status or end.status or 0,
                overhead_ms=call.overhead_ms,
                client_gone=end.outcome == "client_closed",
                failed_open=call.failed_open,
                price=call.known.price,
                habit=call.known.habit,
            )
            settled = settle(call.ready, observation, circumstances)
            turn = settled.turn
            log.info("context_estimate", **fields_of(turn))
            await self.ledger.settle(settled.anchor, settled.turn)
            conversation = call.received.conversation
            await self._estimates.teach(turn.upstream, conversation.model, call.scale.encoding, settled.sample)
        except Exception as error:  # noqa: BLE001  the answer is out: nothing here may reach the client
            _failed("settle", error)


def _hands_off(policy: Policy) -> Policy:
    return replace(policy, mode="off", ask_usage=False)


def _observed(reader: Reader | None, end: End) -> Observation:
    if reader is None:
        error = end.error
        return Observation(outcome="error", error_type=error.kind if error is not None else "")
    return reader.finish(complete=end.outcome == "complete")


async def _read_error(answer: UpstreamResponse) -> tuple[bytes, tuple[bytes, ...]]:
    """An error answer's text, bounded, and the chunks it came in, for passing it on."""
    held = []
    size = 0
    async for chunk in answer.chunks():
        held.append(chunk)
        size += len(chunk)
        if size > _MOST_ERROR_BYTES:
            break
    return b"".join(held), tuple(held)


def _notes(ready: Ready) -> list[tuple[bytes, bytes]]:
    """What the client is told, in headers only."""
    notes = [
        (b"x-context-session", ready.anchor.session.encode()),
        (b"x-context-estimated-input-tokens", b"%d" % ready.context.total),
        (b"x-context-basis", ready.context.basis.encode()),
        (b"x-context-removed-tokens", b"%d" % ready.removed_tokens),
    ]
    if ready.summarised:
        notes.append((b"x-context-compacted", b"1"))
    return notes


def _failed(stage: str, error: Exception) -> None:
    """One event per failure of ours: the class of the error only, since texts may quote content."""
    log.warning("failed_open", stage=stage, error=type(error).__name__)
