"""What calls came to, once their answers are out: measured, told, and given to whoever remembers."""

from collections.abc import Awaitable
from itertools import starmap

from proxy.dialects.base import Observation, Reader
from proxy.exchange.originals import originals_of
from proxy.exchange.settle import Circumstances, Settled, settle
from proxy.ledger.records import Turn
from proxy.ledger.store import Settlement
from proxy.server.call import Call, Shared
from proxy.server.decide import unsaid
from proxy.server.events import say_calls
from proxy.server.learning import pupil
from proxy.server.relay import End
from proxy.server.settling import Settling
from proxy.server.transcripts import Transcripts

_MOST_RATIO = 1.5
"""Of a provider's count to ours: beyond that, it counts something else."""


class Settler:
    """Settles what ends, each step for all calls that ended together. A failure is counted and harms no other step."""

    def __init__(self, shared: Shared, *, keeps_originals: bool, transcripts: Transcripts | None) -> None:
        self._shared = shared
        self._keeps_originals = keeps_originals
        self._transcripts = transcripts
        self._settling: Settling[tuple[Call, End]] = Settling(self._settle)

    @property
    def transcribes(self) -> bool:
        """Whether the client's own body is wanted when its call has ended."""
        return self._transcripts is not None

    def add(self, call: Call | None, end: End) -> None:
        """The last byte is out. None: nothing was understood of the call. Never raises."""
        self._shared.watch.open_calls -= 1
        if call is not None:
            self._settling.add((call, end))

    async def _settle(self, ended: list[tuple[Call, End]]) -> None:
        shared, calls = self._shared, [one for one in starmap(self._came_to, ended) if one is not None]
        turns = [settled.turn for _, settled, _ in calls]
        # Four times `try`, since a function for it would take longer than some of the steps.
        try:
            say_calls(turns)
        except Exception as error:  # noqa: BLE001  counted, and the others go on
            self._failed(error)
        for turn in turns:
            try:
                shared.watch.settled(turn)
            except Exception as error:  # noqa: BLE001  counted, and the others go on
                self._failed(error)
        # Before all that waits for something: the conversations' next calls ask for it.
        try:
            await shared.ledger.settle(*[settlement for _, _, settlement in calls])
        except Exception as error:  # noqa: BLE001  counted, and the others go on
            self._failed(error)
        for call, settled, _ in calls:
            if call.queued:
                await self._harmless(unsaid(shared, call, came_through=settled.turn.outcome in ("ok", "blocked")))
        for call, settled, _ in calls:
            turn = settled.turn
            try:
                model = pupil(call.received.conversation)
                await shared.estimates.teach(turn.upstream, model, call.scale.encoding, settled.sample)
            except Exception as error:  # noqa: BLE001  counted, and the others go on
                self._failed(error)
            if (window := turn.window) is not None and _took_more(turn, window):
                await self._harmless(shared.habits.disproved(turn.upstream, turn.model, window))
            if self._transcripts is not None:
                await self._harmless(self._transcribed(self._transcripts, call, turn))

    async def _harmless(self, step: Awaitable[None]) -> None:
        try:
            await step
        except Exception as error:  # noqa: BLE001  counted, and the others go on
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._shared.watch.failed("settle", error)

    def _came_to(self, call: Call, end: End) -> tuple[Call, Settled, Settlement] | None:
        try:
            circumstances = Circumstances(
                upstream=call.exchange.route.upstream_name,
                status=call.status or end.status or 0,
                overhead_ms=call.overhead_ms,
                upstream_ms=call.upstream_ms,
                client_gone=end.outcome == "client_closed",
                failed_open=call.failed_open,
                exact=call.exact,
                exact_ms=call.exact_ms,
                price=call.known.price,
                habit=call.known.habit,
            )
            settled = settle(call.ready, _observed(call.reader, end), circumstances)
            originals = originals_of(call.ready) if self._keeps_originals else ()
        except Exception as error:  # noqa: BLE001  nothing is known of this call, and all of the others
            self._failed(error)
            return None
        return call, settled, Settlement(settled.anchor, settled.turn, originals, settled.others)

    async def _transcribed(self, transcripts: Transcripts, call: Call, turn: Turn) -> None:
        """Keep the conversation as its client has it, where the request is one that holds it."""
        is_whole = turn.purpose == "main" and turn.outcome != "error" and not call.received.conversation.server_history
        if not is_whole:
            return
        try:
            await transcripts.keep(turn.session, turn.model, call.received.view.body)
        except OSError as error:
            self._shared.watch.failed("transcript", error)


def _took_more(turn: Turn, window: int) -> bool:
    """Whether the provider has read more than the window, and not merely counted more than there was (running totals)."""
    return turn.outcome == "ok" and window < (turn.usage.input_tokens or 0) <= _MOST_RATIO * turn.estimated


def _observed(reader: Reader | None, end: End) -> Observation:
    if reader is None:
        error = end.error
        return Observation(outcome="error", error_type=error.kind if error is not None else "")
    # Nothing broke off where the client left: whether it had all of its answer by then, the answer tells.
    return reader.finish(complete=end.outcome in ("complete", "client_closed"))
