"""The seam to whatever HTTP client carries a call to its upstream."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from proxy.errors import UpstreamError
from proxy.server.deadline import Deadline
from proxy.wire.headers import Headers

HEADER_LIMIT_BYTES = 256 * 1024
"""One header, and one status line, of an answer may be this long: far above any provider's, far below a danger."""
CONNECT_TIMEOUT_S = 20.0
KEEP_ALIVE_S = 55.0
"""Idle connections are dropped before the usual 60 s of load balancers do it."""
STALE_WITHIN_S = 1.0
"""A kept connection that dies this soon after a request, with no byte of an answer, was dead before."""
PROBES: Final[tuple[tuple[int, int, int], ...]] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 0) or getattr(socket, "TCP_KEEPALIVE", 0x10), 45),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5),
)
"""Socket options by which TCP asks after the other end while an answer takes its time. Firewalls and NATs forget a connection on
which nothing moves for some minutes (AWS: 350 s), and then a model that thinks for longer is never heard of again. The SDKs set
the same on their own connections, which end here now."""
AGE_S: Final = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""A clock for the age of idle connections. It goes on while the machine sleeps (macOS: its monotonic clock does so, but not
Python's): a laptop that wakes up still holds what all the others have forgotten, and a request on that would wait for minutes."""
_LOOKS = 8
_LOOK_S = 0.025


class Grace:
    """Tells whether so little time has passed since a request that its kept connection may have been dead before.

    A clock alone cannot tell: on a loop that was held up (by a burst of calls, or a machine with too much to do), what
    happened at once is seen late. So when time is up, the loop first gets some turns to look at its sockets and to
    tell whoever waits.
    """

    __slots__ = ("_deadline", "_looks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._deadline = Deadline(loop, self._look)
        self._looks = 0

    @property
    def lasts(self) -> bool:
        """Whether it still may have been dead before."""
        return self._looks > 0

    def begin(self) -> None:
        """A request goes out now. May be called again for the next one."""
        self._looks = _LOOKS
        self._deadline.set(STALE_WITHIN_S)

    def close(self) -> None:
        """Nobody will ask at all."""
        self._deadline.close()

    def _look(self) -> None:
        self._looks -= 1
        if self.lasts:
            self._deadline.set(_LOOK_S)


def probed(peer: socket.socket) -> socket.socket:
    """The socket, now with PROBES as far as the system has them."""
    for option in PROBES:
        with contextlib.suppress(OSError):
            peer.setsockopt(*option)
    return peer


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How one upstream is reached, by all requests to it."""

    url_base: str
    """`scheme://host[:port][/path]` without a slash at the end."""
    timeout_s: float
    """Longest silence, before the head and between two pieces of the body."""
    ca_file: str | None = None
    detour: str = ""
    """URL of an HTTP proxy to go through: a tunnel to what speaks TLS, else the request names its whole address."""


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it shall stand on the wire."""

    method: str
    way: Way
    target: bytes
    """Path and query, sent byte for byte behind the base's own path."""
    headers: Headers
    """As sent, in this order; Host is added. Content-Length is added for `bytes` bodies, and for a body that is an
    iterator the list may hold it; without it such a body goes out chunked."""
    body: bytes | AsyncIterator[bytes] | None
    lines: bytes | None = None
    """What `lines_of` makes of the headers, where that is known from an earlier request."""


class UpstreamResponse(Protocol):
    """An answer whose head has come."""

    status: int
    headers: Headers
    """Raw, in order, duplicates kept; names in lower case."""
    complete: bool
    """True once the body has ended as its framing promised; then nothing is left to let go."""
    error: UpstreamError | None
    """Why the body ended early, once it has."""

    @property
    def ready(self) -> bool:
        """`read` returns at once; False where that cannot be told."""

    def rest(self) -> bytes | None:
        """What is left of the body where all of it is here, which is then `complete`. None: it is to be read."""

    async def read(self) -> bytes:
        """What has arrived of the body since the last time, undecoded; waits for something.

        Empty when the body has ended or the upstream broke off: see `complete`, which may be True with the last bytes.
        """

    async def pour(self, into: Callable[[bytes], bool]) -> None:
        """Hand over what arrives of the body in the step in which it arrives, until `into`, which must not raise, gives False.

        Returns then, and before the body's last bytes: they are for `read`, as is all the rest where an engine cannot do this.
        """

    async def aclose(self) -> None:
        """Let go: the connection goes back to the pool if the body was read to its end, else it is closed at once."""


class Engine(Protocol):
    """An HTTP client without opinions: no redirects, cookies, decoding, added headers, proxies but the request's own."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send and wait for the head. Cancelling closes the connection.

        Raises UpstreamUnreachable, UpstreamTimeout or UpstreamBroken. Tried again once where a kept connection proves
        dead before anything of an answer came and the body can be sent again.
        """

    async def aclose(self) -> None:
        """Close every connection."""


async def pieces_of(body: bytes, size_bytes: int) -> AsyncIterator[bytes]:
    """A body in pieces, for whoever must not write it at one go."""
    for start in range(0, len(body), size_bytes):
        yield body[start : start + size_bytes]


async def framed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces as a chunked body (RFC 9112 section 7.1)."""
    async for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"
