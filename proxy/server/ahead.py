"""A call that is sent before it is predicted: nothing could change it any more, so nobody need wait for that."""

import time
from dataclasses import replace

from proxy.exchange.foregone import foregone
from proxy.exchange.prepare import is_held_out, prepare
from proxy.exchange.receive import NO_MEMORY
from proxy.server.call import Call, Shared


class Ahead:
    """The prediction that is made while such a call is on its way, by whoever asks first."""

    __slots__ = ("_call", "_predicted", "_shared")

    def __init__(self, shared: Shared, call: Call) -> None:
        self._shared = shared
        self._call: Call | None = call
        self._predicted = False
        call.overhead_ms = (time.perf_counter() - call.started) * 1000

    def predicted(self) -> Call | None:
        """The predicted call; None where predicting tripped, which is counted: then it is relayed unread."""
        call = self._call
        if call is not None and not self._predicted:
            self._predicted = True
            try:
                _predict(self._shared, call)
            except Exception as error:  # noqa: BLE001  the client's own bytes are out
                self._call = call = None
                self._shared.watch.failed("decide", error)
        return call


def _predict(shared: Shared, call: Call) -> None:
    received, memory, policy, now = call.received, call.memory, call.policy, time.time()
    try:
        call.ready = foregone(
            received,
            memory,
            policy,
            call.scale,
            now=now,
            held_out=is_held_out(received, memory, policy),
            learned=call.learned,
        )
    except Exception as error:  # noqa: BLE001  it is predicted without memory
        hands_off(shared, call, error, now)


def hands_off(shared: Shared, call: Call, error: Exception, now: float) -> None:
    """A call as it came, after deciding about it has tripped."""
    shared.watch.failed("prepare", error)
    policy = replace(call.policy, mode="off", ask_usage=False)
    call.ready = prepare(call.received, NO_MEMORY, policy, call.scale, now=now)
    call.failed_open = "prepare"
