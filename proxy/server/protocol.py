"""The client's side of HTTP/1.1: what uvicorn makes for each connection.

uvicorn stays the server: it listens, speaks TLS, hears signals, drains. Its own protocol does more than is needed here
(access log, WebSockets, headers of its own) and takes half as much CPU for a call as all that the relay does with it.
httptools parses; `server.cycle` is one request and its answer.

Rules: requests that come behind one another are answered one after the other; what is no HTTP ends the connection, but
not before the calls in front of it are answered; a connection on which nothing is under way ends after `keep_alive_s`.
"""

import asyncio
from typing import Any, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from proxy.server.cycle import LASTING, Cycle
from proxy.server.deadline import Deadline
from proxy.server.target import taken_apart
from proxy.wire.headers import Headers

LAST_CALLS_S = 1.0
"""How long a connection without a call stays open when the server ends: a call may be on its way, and whoever sent it cannot
tell whether it was read, so it is not sent again."""
_LINGER_S = 5.0
_UNUSED_LIMIT_BYTES = 1024 * 1024  # of a head, of what follows a chunked body, of a chunk's own description
_NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 30\r\n"
    b"connection: close\r\n\r\nInvalid HTTP request received."
)


class Protocol(asyncio.Protocol):
    """One connection. Made and shut down by uvicorn's server, whose parameters these are."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002  of a lifespan, which nothing here has
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self.loop = _loop or asyncio.get_running_loop()
        self.server = server_state
        self._app = config.loaded_app
        self._keep_alive_s: float = config.timeout_keep_alive
        self._ending = False
        self._idle = Deadline(self.loop, self._idled)
        self._parser: httptools.HttpRequestParser | None = self._new_parser()
        self._transport: asyncio.Transport | None = None
        self._scope: dict[str, Any] = {}
        self._last_url = b""  # which the scope speaks of
        self._current: Cycle | None = None
        """The call that is being answered."""
        self._waiting: list[Cycle] = []  # nearly always empty, for which a deque would take 600 bytes
        self._last: Cycle | None = None
        """The call whose request is being read, or was read last."""
        self._deaf = False
        """What comes cannot be understood any more."""
        self._read_paused = False
        self.room: asyncio.Event | None = None
        """While the client has much to take of what was written: set when it has taken it. Hardly any connection needs it."""
        self._unused_bytes = 0  # received since the last piece of a body or end of a request
        self._url = b""
        self._headers: Headers = []
        self._upgrading: Headers | None = None
        """The headers of a request that wants another protocol, while it is read once more."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        transport = self._transport = cast(asyncio.Transport, transport)
        self.server.connections.add(self)  # type: ignore[arg-type]  # names uvicorn's own classes
        # With everything that a call's own has: of a copy only values are set then.
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "https" if is_ssl(transport) else "http",
            "root_path": "",
            "http_version": "",
            "method": "",
            "path": "",
            "raw_path": b"",
            "query_string": b"",
            "headers": [],
            "extensions": {},
            LASTING: {},
        }
        self._idle.set(self._keep_alive_s)

    def connection_lost(self, _exc: Exception | None) -> None:
        """See asyncio."""
        self.server.connections.discard(self)
        self._idle.close()
        self._deaf = True
        # They know this object, which is not to wait for a collection.
        self._parser = self._last = None
        self.resume_writing()
        current, self._current = self._current, None
        self._waiting.clear()
        if current is not None:
            current.left()

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._deaf or self._parser is None:
            return
        self._unused_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_again(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._not_http()
        else:
            if self._unused_bytes > _UNUSED_LIMIT_BYTES:
                self._not_http()
            elif self._current is None:
                self._idle.set(self._keep_alive_s)

    def pause_writing(self) -> None:
        """See asyncio."""
        self.room = asyncio.Event()

    def resume_writing(self) -> None:
        """See asyncio."""
        room, self.room = self.room, None
        if room is not None:
            room.set()

    # uvicorn

    def shutdown(self) -> None:
        """The server ends: what is on its way is answered, and answers that begin from now on say that they are the last."""
        self._ending = True
        self._keep_alive_s = LAST_CALLS_S
        if self._current is None:
            self._idle.set(LAST_CALLS_S)
        elif self._last is not None and not self._last.started:
            self._last.keep_alive = False

    # httptools

    def on_url(self, url: bytes) -> None:
        """Part of its target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        # What is blank behind a value is no part of it (RFC 9112 section 5.1); the parser leaves out only what stands before.
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is whole: the call begins, or waits for those before it."""
        assert self._parser is not None
        if self._parser.should_upgrade():
            self._upgrading = self._headers
            return
        headers, self._upgrading = self._upgrading or self._headers, None
        url, self._url, self._headers = self._url, b"", []
        if url != self._last_url:
            self._go_to(url)
        version = self._parser.get_http_version()
        scope = self._scope.copy()
        scope["http_version"] = version
        scope["method"] = self._parser.get_method().decode("ascii")
        scope["headers"] = headers
        lasts = version != "1.0" and self._parser.should_keep_alive() and not self._ending
        cycle = self._last = Cycle(self, scope, keep_alive=lasts)
        if self._current is None:
            self._begin(cycle)
        else:
            self._waiting.append(cycle)
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Bytes of the body, without their framing."""
        self._unused_bytes = 0
        cycle = self._last
        if cycle is not None and not cycle.answered and cycle.take(body):
            self.pause_reading()

    def on_message_complete(self) -> None:
        """The request's end."""
        if self._upgrading is not None:
            return
        self._unused_bytes = 0
        # What followed a chunked body is no header of any request (RFC 9110 section 6.5.1).
        self._headers = []
        if self._last is not None:
            self._last.ended()

    # For the cycle

    def write(self, data: bytes) -> None:
        """Bytes to the client, as far as it is still there."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Let the client wait with what it still has to send."""
        if not self._read_paused and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take more, and notice when the client leaves."""
        if self._read_paused and self._transport is not None and not self._transport.is_closing():
            self._read_paused = False
            self._transport.resume_reading()

    def finished(self, cycle: Cycle) -> None:
        """The answer is out: the next one, or wait for it."""
        self.server.total_requests += 1
        self._current = None
        if not cycle.keep_alive:
            if cycle.is_whole:
                self.close()
            else:
                self._linger()
            return
        if self._waiting:
            self._begin(self._waiting.pop(0))
        else:
            self._idle.set(self._keep_alive_s)
        if self._read_paused:
            self.resume_reading()

    def close(self) -> None:
        """End the connection once all is written."""
        if self._transport is not None:
            self._transport.close()

    # Inside

    def _idled(self) -> None:
        # Set anew behind each call, and not cleared before it.
        if self._current is None:
            self.close()

    def _linger(self) -> None:
        """Who still sends would lose the answer to a reset: what comes is taken unread for a while (RFC 9112 section 9.6)."""
        self._deaf = True
        self._idle.set(LAST_CALLS_S if self._ending else _LINGER_S)
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()
        self.resume_reading()

    def _go_to(self, url: bytes) -> None:
        """Have the scope say where this target leads, until another one comes."""
        path, query = taken_apart(url)
        text = path.decode("ascii")
        self._scope["path"] = unquote(text) if "%" in text else text
        self._scope["raw_path"] = path
        self._scope["query_string"] = query
        self._last_url = url

    def _begin(self, cycle: Cycle) -> None:
        self._current = cycle
        cycle.begin(self._app)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # So that the call in front of bytes that nobody will answer is itself answered.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _read_again(self, rest: bytes) -> None:
        """A request that wants another protocol, as if it did not (RFC 9110 section 7.8): the parser skips its body."""
        assert self._parser is not None
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            self._not_http()
            return
        lines = [b"%b %b HTTP/%b\r\n" % (method, self._url, version)]
        lines += [b"%b: %b\r\n" % header for header in self._headers if header[0] != b"upgrade"]
        self._parser = self._new_parser()
        self._url, self._headers = b"", []
        self.data_received(b"".join([*lines, b"\r\n", rest]))

    def _not_http(self) -> None:
        """No answer to this; but what came before it gets one."""
        self._deaf = True
        broken = self._last if self._last is not None and not self._last.is_whole else None
        if self._waiting and self._waiting[-1] is broken:
            self._waiting.pop()
        if self._current is not None and self._current is not broken:
            (self._waiting[-1] if self._waiting else self._current).keep_alive = False
            return
        if self._current is None or not self._current.started:
            self.write(_NOT_HTTP)
        self.close()
