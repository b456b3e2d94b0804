"""A decided call's body on its way to the upstream."""

import time

from proxy.server.call import Call
from proxy.server.engines.base import UpstreamResponse
from proxy.wire.headers import listed

Answer = tuple[UpstreamResponse, tuple[bytes, ...]]
"""An upstream's answer and the chunks that were already taken from it."""

REFUSED = 400
"""The first status of a refusal."""


async def dispatched(call: Call) -> UpstreamResponse:
    """The upstream's answer to the call as it now stands. Raises UpstreamError."""
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
