"""A modelled call, top to bottom: read, decide, send, relay, settle.

Whatever fails of ours on the way, the client's own bytes go out and the call goes on; `failed_open` says which stage it
was. Only what is the client's fault, or the provider's, becomes an error.
"""

import asyncio
import time

import msgspec
import structlog

from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.models import windows_in
from proxy.errors import StoreError
from proxy.exchange.reasoning import keeps_reasoning
from proxy.ledger.records import Turn
from proxy.ledger.store import Ledger, Settlement
from proxy.pricing.cost import cost
from proxy.server.ahead import Ahead
from proxy.server.behind import begun
from proxy.server.board import Board
from proxy.server.call import Call, Shared
from proxy.server.decide import decided
from proxy.server.dispatch import Answer
from proxy.server.engines.base import Engine, UpstreamResponse
from proxy.server.events import say_calls
from proxy.server.exact import Exact
from proxy.server.habits import Habits
from proxy.server.learning import Estimates
from proxy.server.lifetimes import Lifetimes
from proxy.server.newcomers import Newcomers
from proxy.server.pace import Pace
from proxy.server.peeking import reader_of
from proxy.server.policies import Policies
from proxy.server.relay import Exchange, relay
from proxy.server.send import looked_into, sent
from proxy.server.settler import Settler
from proxy.server.summarizer import Spent, Summarizer
from proxy.server.tokenizers import Scales
from proxy.server.transcripts import Transcripts
from proxy.server.watch import Watch
from proxy.settings.values import Settings
from proxy.wire.headers import content_length, first, is_event_stream
from proxy.wire.sse_filter import EventFilter

HTTP_OK = 200
_SAYS_NOTHING = frozenset({b"", b"text/plain", b"application/octet-stream"})
"""Content types under which gateways stream, too."""
_MODE = b"x-context-mode"
_MOST_LIST_BYTES = 8 * 1024 * 1024
_MOST_KEPT_BYTES = 16 * 1024
"""Of a body, while its answer streams: less is not worth the steps that it takes to forget it."""

log = structlog.get_logger("proxy")


class Handler:
    """Takes the calls of the App."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        engine: Engine,
        *,
        board: Board | None = None,
        watch: Watch | None = None,
    ) -> None:
        watch = watch or Watch()
        self.shared = Shared(
            ledger=ledger,
            board=board or Board(ledger, settings.mode),
            watch=watch,
            policies=Policies(settings),
            estimates=Estimates(ledger, enabled=settings.estimate.learn),
            habits=Habits(ledger),
            lifetimes=Lifetimes(ledger, time.time),
            summarizer=Summarizer(engine, ledger, time.time, self._spent),
            newcomers=Newcomers(),
            exact=Exact(engine, watch.metrics.counted, enabled=settings.estimate.exact == "near"),
            recall=Recall(settings.server.cache_mb * 1024 * 1024),
            scales=Scales(),
            pace=Pace(),
            lane=asyncio.Lock(),
        )
        transcripts = Transcripts(settings.store.transcripts) if settings.store.transcripts else None
        self._settler = Settler(self.shared, keeps_originals=settings.store.originals, transcripts=transcripts)

    async def take(self, exchange: Exchange) -> None:
        """Take one call."""
        dialect = dialect_for(exchange.route.rest_path) if exchange.method == "POST" else None
        if dialect is None:
            await self._unmodelled(exchange)
            return
        raw = await exchange.read_body()
        call = await decided(self.shared, exchange, dialect, raw)
        if call is None:
            await exchange.respond(await exchange.send_upstream(raw))
            return
        if isinstance(call, Ahead):
            await self._ahead(exchange, raw, call)
            return
        if not call.counts_only:
            self.shared.watch.open_calls += 1
            exchange.on_end = lambda end: self._settler.add(call, end)
        answer = await sent(self.shared, call)
        if len(raw) > _MOST_KEPT_BYTES:
            del raw
            _let_go(call, transcribed=self._settler.transcribes)
        await self._relayed(call, answer)
        begun(self.shared, call)

    async def _ahead(self, exchange: Exchange, raw: bytes, ahead: Ahead) -> None:
        """A call that nothing can change: it is predicted while it is on its way."""
        self.shared.watch.open_calls += 1
        exchange.on_end = lambda end: self._settler.add(ahead.predicted(), end)
        sending = time.perf_counter()
        answer = await exchange.send_upstream(raw, meanwhile=ahead.predicted)
        came = time.perf_counter()
        call = ahead.predicted()
        if call is None:
            await exchange.respond(answer)
            return
        call.upstream_ms = (came - sending) * 1000
        await self._relayed(call, await looked_into(self.shared, call, answer))

    async def _unmodelled(self, exchange: Exchange) -> None:
        """Everything else streams through unread, but for the list of models: it may name their windows."""
        if exchange.method != "GET" or not exchange.route.rest_path.endswith("/models"):
            await relay(exchange)
            return
        copy = bytearray()

        def keep(piece: bytes) -> None:
            if len(copy) < _MOST_LIST_BYTES:
                copy.extend(piece)

        end = await exchange.respond(await exchange.send_streaming(), observe=keep)
        if end.outcome == "complete" and end.status == HTTP_OK:
            await self.shared.habits.learn_list(exchange.route.upstream_name, windows_in(bytes(copy)))

    async def aclose(self) -> None:
        """Let go of what runs in the background."""
        await self.shared.lifetimes.aclose()
        await self.shared.summarizer.aclose()

    async def _relayed(self, call: Call, answered: Answer) -> None:
        """The answer to the client, a copy to the reader."""
        answer, held = answered
        call.status = answer.status
        call.reader = reader_of(call, answer, keep_reasoning=keeps_reasoning(call.received, call.policy))
        hides = call.ready.asked_usage and _may_stream(answer)
        await call.exchange.respond(
            answer,
            extra=_notes(call),
            held=held,
            transform=EventFilter(call.dialect.is_usage_only) if hides else None,
            observe=call.reader.feed,
            heartbeat=call.waited and call.dialect.allows_comments,
        )

    async def _spent(self, exchange: Exchange, spent: Spent) -> None:
        """A summary call is a row of its own in the conversation that it was made for: no turn of it, but a part of its bill."""
        known = self.shared.policies.known(exchange.route.upstream_name, spent.model, "off", None)
        turn = Turn(
            session=spent.session,
            turn=0,
            at=time.time(),
            upstream=exchange.route.upstream_name,
            model=spent.model,
            dialect="",
            basis="estimated",
            estimated=0,
            usage=spent.observation.usage,
            outcome="ok" if spent.status < 400 else "error",
            status=spent.status,
            purpose="summary",
            cost=cost(spent.observation.usage, known.price),
        )
        say_calls([turn])
        self.shared.watch.settled(turn)
        try:
            await self.shared.ledger.settle(Settlement(None, turn))
        except StoreError as error:
            self.shared.watch.failed("settle", error)


def _may_stream(answer: UpstreamResponse) -> bool:
    """Whether an answer to a request for a stream may be one: its headers say so, or do not say what it is."""
    kind = (first(answer.headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    # Of a JSON text the length is mostly told, of a stream that is called so it cannot be.
    unsaid = kind in _SAYS_NOTHING or (kind == b"application/json" and content_length(answer.headers) is None)
    return is_event_stream(answer.headers) or (answer.status == HTTP_OK and unsaid)


def _let_go(call: Call, *, transcribed: bool) -> None:
    """Nothing is sent any more: an answer may take minutes, in which nobody needs a body, but a transcript the client's."""
    received = call.received
    if not transcribed:
        received = msgspec.structs.replace(received, view=msgspec.structs.replace(received.view, body=b""))
    call.received = received
    call.ready = msgspec.structs.replace(call.ready, received=received, body=received.view.body)
    call.raw = b""


def _notes(call: Call) -> list[tuple[bytes, bytes]]:
    """What the client is told, in headers only."""
    ready, wish = call.ready, call.exchange.named.get(_MODE, b"").strip().lower()
    notes = [
        (b"x-context-session", ready.anchor.session.encode()),
        (b"x-context-estimated-input-tokens", b"%d" % ready.estimated),
        (b"x-context-basis", ready.context.basis.encode()),
        (b"x-context-removed-tokens", b"%d" % ready.removed_tokens),
    ]
    if ready.summarised:
        notes.append((b"x-context-compacted", b"1"))
    if wish and wish != call.policy.mode.encode():
        notes.append((_MODE, call.policy.mode.encode()))
    return notes
