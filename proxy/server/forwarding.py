"""The pieces of an answer on their way to the client.

A piece mostly goes on in the very step in which it arrives: a call's task that woke for each would take half as long again.
It wakes where the client is slow, and for the end.
"""

from collections.abc import Callable, Sequence

from proxy.server.copying import Copying
from proxy.server.engines.base import UpstreamResponse
from proxy.server.heartbeat import Send
from proxy.server.incoming import Served

Transform = Callable[[bytes], bytes]


async def forwarded(
    answer: UpstreamResponse,
    held: Sequence[bytes],
    transform: Transform | None,
    copying: Copying | None,
    send: Send,
    served: Served | None,
) -> bytes:
    """All chunks but the last, which ends the answer and is returned; b"" where it ended without, or broke off.

    `served`: where pieces may be written without `send`.
    """
    chunk = b"".join(held) or await answer.read()
    if answer.complete:
        # Mostly, where nothing streams.
        return chunk
    passing = _Passing(served, transform, copying) if served is not None else None
    while chunk and not answer.complete:
        piece = chunk if transform is None else transform(chunk)
        if piece:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if copying is not None:
            copying.take(chunk)
        if passing is not None:
            await answer.pour(passing)
            if passing.failure is not None:
                raise passing.failure
        chunk = await answer.read()
    return chunk


class _Passing:
    """Takes a piece from the upstream's connection, which must not hear of what goes wrong here."""

    __slots__ = ("_copying", "_served", "_transform", "failure")

    def __init__(self, served: Served, transform: Transform | None, copying: Copying | None) -> None:
        self._served = served
        self._transform = transform
        self._copying = copying
        self.failure: Exception | None = None

    def __call__(self, chunk: bytes) -> bool:
        """Whether there may be more at once."""
        transform = self._transform
        try:
            piece = chunk if transform is None else transform(chunk)
            more = self._served.pass_on(piece) if piece else True
        except Exception as error:  # noqa: BLE001  raised where the call's task hears it
            self.failure = error
            return False
        if self._copying is not None:
            self._copying.take(chunk)
        return more
