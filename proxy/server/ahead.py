"""A call that is sent before it is predicted: nothing could change it any more, so nobody need wait for that."""

import time

from proxy.conversation.steps import Steps, at_once
from proxy.exchange.prepare import as_it_came
from proxy.server.call import Call, Shared


class Ahead:
    """The prediction that is made while such a call is on its way, by whoever asks first."""

    __slots__ = ("_call", "_predict", "_sent_at", "_shared")

    def __init__(self, shared: Shared, predict: Steps[Call]) -> None:
        self._shared = shared
        self._predict: Steps[Call] | None = predict
        self._call: Call | None = None
        self._sent_at = time.perf_counter()

    def predicted(self) -> Call | None:
        """The predicted call; None where predicting tripped, which is counted: then it is relayed unread."""
        predict, self._predict = self._predict, None
        if predict is not None:
            try:
                self._call = call = _unharmed(at_once(predict))
                call.overhead_ms = (self._sent_at - call.started) * 1000
            except Exception as error:  # noqa: BLE001  the client's own bytes are out
                self._shared.watch.failed("decide", error)
        return self._call


def _unharmed(call: Call) -> Call:
    """The call without what it would have changed, if anything: its bytes are out already."""
    ready = call.ready
    if ready.changed or ready.new_edits or ready.need is not None:
        call.ready = as_it_came(ready, call.memory, call.policy, call.scale, call.learned)
    return call
