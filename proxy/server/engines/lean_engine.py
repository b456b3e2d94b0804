"""The relay's own engine: a pool of plain HTTP/1.1 connections.

Why own code where aiohttp would do: a call through aiohttp costs more CPU than all the rest of the proxy together. The
price is that there is no HTTP/2 here, which no provider asks for.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

import aiohappyeyeballs

from proxy.errors import UpstreamBroken, UpstreamError, UpstreamUnreachable
from proxy.server.engines.authorities import tls_context
from proxy.server.engines.base import AGE_S, CONNECT_TIMEOUT_S, KEEP_ALIVE_S, UpstreamRequest, Way, probed
from proxy.server.engines.connection import Connection
from proxy.server.engines.detour import Detour, detour, tunnel
from proxy.wire.headers import Headers, first, lines_of

_HAPPY_EYEBALLS_S = 0.25
"""Head start of each address before the next is tried beside it (RFC 8305 section 5)."""
_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
_Key = tuple[str, int, str | None, bool, str]
"""Of connections that may stand for one another: host, port, authorities, whether it is TLS, and the proxy on the way."""


@dataclass(frozen=True, slots=True)
class _Goal:
    """What a way leads to, taken apart."""

    host: str
    port: int
    is_tls: bool
    host_header: bytes
    path: bytes
    key: _Key


class LeanEngine:
    """See `Engine`."""

    def __init__(self) -> None:
        # Kept, since asking for the running loop is a system call.
        self._loop = asyncio.get_running_loop()
        self._idle: dict[_Key, list[Connection]] = {}
        self._open: set[Connection] = set()

    async def send(self, request: UpstreamRequest) -> "_Response":
        """See `Engine.send`."""
        goal = _taken_apart(request.way)
        head, chunked = _head(request, goal)
        idle = self._idle.setdefault(goal.key, [])
        # What cannot be sent twice does not go where it may be lost.
        kept = self._kept(idle) if request.body is None or isinstance(request.body, bytes) else None
        while True:
            connection = kept or await self._connect(goal, request.way)
            try:
                if kept is not None:
                    kept.grace.begin()
                connection.begin(
                    head,
                    request.body,
                    chunked=chunked,
                    is_head=request.method == "HEAD",
                    timeout_s=request.way.timeout_s,
                )
                while not connection.has_head:
                    await connection.news()
                return _Response(self, idle, connection)
            except BaseException as error:
                # Also when cancelled: the upstream learns at once that nobody waits.
                connection.end()
                self._open.discard(connection)
                was_dead = isinstance(error, UpstreamBroken) and not connection.answered and connection.grace.lasts
                if kept is None or not was_dead:
                    raise
            kept = None

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        for connection in tuple(self._open):
            connection.abort()
        self._open.clear()
        self._idle.clear()

    def _kept(self, idle: list[Connection]) -> Connection | None:
        """The kept connection that was used last, so that the others can grow old."""
        oldest = AGE_S() - KEEP_ALIVE_S
        while idle:
            connection = idle.pop()
            if not connection.closed and connection.idle_since > oldest:
                return connection
            connection.abort()
            self._open.discard(connection)
        return None

    async def _connect(self, goal: _Goal, way: Way) -> Connection:
        through = detour(way.detour) if way.detour else None
        try:
            async with asyncio.timeout(min(CONNECT_TIMEOUT_S, way.timeout_s)):
                peer = await self._reached(goal, through)
                tls = tls_context(way.ca_file) if goal.is_tls else None
                _, connection = await self._loop.create_connection(
                    Connection, sock=peer, ssl=tls, server_hostname=goal.host if tls else None
                )
        except (OSError, TimeoutError, UnicodeError) as error:
            whom = f"the upstream {goal.host_header.decode()}"
            if through is not None:
                whom = f"the HTTP proxy {through.host}:{through.port} on the way to {whom}"
            # Its traceback ends in a frame that names the error, and that frame holds those of the call with its bodies.
            raise UpstreamUnreachable(f"cannot connect to {whom} ({_named(error)})") from error.with_traceback(None)
        self._open.add(connection)
        return connection

    async def _reached(self, goal: _Goal, through: Detour | None) -> socket.socket:
        """A socket to the upstream, or to a proxy that takes requests for it. Raises UpstreamUnreachable, OSError."""
        loop = self._loop
        host, port = (goal.host, goal.port) if through is None else (through.host, through.port)
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        peer = probed(await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_HAPPY_EYEBALLS_S))
        if through is not None and goal.is_tls:
            try:
                await tunnel(loop, peer, through, goal.host, goal.port)
            except BaseException:
                peer.close()
                raise
        return peer

    def give_back(self, idle: list[Connection], connection: Connection) -> None:
        """Keep a connection whose exchange is over with its like, or let it go; also what has been idle for too long."""
        if not connection.end():
            self._open.discard(connection)
            return
        idle.append(connection)
        oldest = connection.idle_since - KEEP_ALIVE_S
        while idle[0].closed or idle[0].idle_since < oldest:
            gone = idle.pop(0)
            gone.abort()
            self._open.discard(gone)


class _Response:
    """See `UpstreamResponse`."""

    __slots__ = ("_connection", "_engine", "_idle", "complete", "error", "headers", "status")

    def __init__(self, engine: LeanEngine, idle: list[Connection], connection: Connection) -> None:
        self._engine = engine
        self._idle = idle
        self._connection: Connection | None = connection
        self.status = connection.status
        self.headers: Headers = connection.headers
        self.complete = False
        self.error: UpstreamError | None = None

    @property
    def ready(self) -> bool:
        """See `UpstreamResponse.ready`."""
        return self._connection is None or self._connection.is_ready()

    def rest(self) -> bytes | None:
        """See `UpstreamResponse.rest`."""
        connection = self._connection
        if connection is None or not connection.complete:
            return None
        self.complete = True
        body = connection.take()
        self._give_back()
        return body

    async def read(self) -> bytes:
        """See `UpstreamResponse.read`."""
        connection = self._connection
        if connection is None:
            return b""
        while not (chunk := connection.take()) and not connection.is_over():
            await connection.news()
        if connection.complete:
            self.complete = True
            self._give_back()
        elif not chunk:
            self.error = connection.error
            self._give_back()
        return chunk

    async def pour(self, into: Callable[[bytes], bool]) -> None:
        """See `UpstreamResponse.pour`."""
        if self._connection is not None:
            await self._connection.pour(into)

    async def aclose(self) -> None:
        """See `UpstreamResponse.aclose`."""
        self._give_back()

    def _give_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._engine.give_back(self._idle, connection)


def _head(request: UpstreamRequest, goal: _Goal) -> tuple[bytes, bool]:
    """The request's head as bytes, and whether its body goes out chunked."""
    place, body = goal.path, request.body
    lines = request.lines if request.lines is not None else lines_of(request.headers)
    if request.way.detour and not goal.is_tls:
        place = b"http://%b%b" % (goal.host_header, place)
        lines = lines_of(detour(request.way.detour).headers) + lines
    framing, chunked = b"", False
    if isinstance(body, bytes) or (body is None and request.method in _BODY_METHODS):
        framing = b"content-length: %d\r\n" % len(body or b"")
    elif body is not None and first(request.headers, b"content-length") is None:
        framing, chunked = b"transfer-encoding: chunked\r\n", True
    whole = (request.method.encode(), place, request.target, goal.host_header, lines, framing)
    return b"%b %b%b HTTP/1.1\r\nhost: %b\r\n%b%b\r\n" % whole, chunked


def _named(error: Exception) -> str:
    """The kind of an error, for people: of the system's own where its class says nothing (EMFILE: too many open files)."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{type(error).__name__}: {error.verify_message}; upstreams.NAME.ca_file names further authorities"
    if isinstance(error, socket.gaierror):
        return f"{type(error).__name__}: {error.strerror}"
    code = errno.errorcode.get(getattr(error, "errno", None) or 0) if type(error) is OSError else None
    return code or type(error).__name__


@lru_cache(maxsize=256)
def _taken_apart(way: Way) -> _Goal:
    parts = urlsplit(way.url_base)
    is_tls = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if is_tls else 80)
    shown = parts.netloc.rpartition("@")[2]
    host_header = shown.encode("idna" if not shown.isascii() else "ascii")
    return _Goal(host, port, is_tls, host_header, parts.path.encode(), (host, port, way.ca_file, is_tls, way.detour))
