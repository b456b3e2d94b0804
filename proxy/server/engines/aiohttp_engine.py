"""The relay's second engine, on aiohttp: the fastest well-kept client that keeps streams as they come."""

import asyncio
import socket
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import aiohttp
from yarl import URL

from proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from proxy.server.engines.authorities import tls_context
from proxy.server.engines.base import (
    CONNECT_TIMEOUT_S,
    HEADER_LIMIT_BYTES,
    KEEP_ALIVE_S,
    Grace,
    UpstreamRequest,
    pieces_of,
    probed,
)
from proxy.wire.headers import Headers

_PIECE_BYTES = 256 * 1024
"""Larger bodies are written in pieces of this size: a single write copies all of them and holds up the loop."""
_NO_AUTOMATIC_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
_reused: ContextVar[bool] = ContextVar("reused", default=False)


class AiohttpEngine:
    """See `Engine`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=0,
                keepalive_timeout=KEEP_ALIVE_S,
                ttl_dns_cache=60,
                socket_factory=lambda address: probed(socket.socket(*address[:3])),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NO_AUTOMATIC_HEADERS,
            auto_decompress=False,
            trust_env=False,
            max_line_size=HEADER_LIMIT_BYTES,
            max_field_size=HEADER_LIMIT_BYTES,
            max_headers=1000,
        )

    async def send(self, request: UpstreamRequest) -> "_Response":
        """See `Engine.send`."""
        grace = Grace(self._loop)
        grace.begin()
        try:
            return await self._attempt(request)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            stale = _reused.get() and grace.lasts
            if not stale or not isinstance(request.body, bytes | None) or _answered(error):
                raise _mapped(error) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _mapped(error) from error
        finally:
            grace.close()
        try:
            return await self._attempt(request)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _mapped(error) from error

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        await self._session.close()

    async def _attempt(self, request: UpstreamRequest) -> "_Response":
        body: Any = request.body
        way = request.way
        headers = [(_text(name), _text(value)) for name, value in request.headers]
        if isinstance(body, bytes) and len(body) > _PIECE_BYTES:
            headers.append(("content-length", str(len(body))))
            body = pieces_of(body, _PIECE_BYTES)
        response = await self._session.request(
            request.method,
            URL(way.url_base + request.target.decode("latin-1"), encoded=True),
            headers=headers,
            data=body or None,
            allow_redirects=False,
            ssl=tls_context(way.ca_file),
            timeout=_timeout(way.timeout_s),
            proxy=way.detour or None,
        )
        if not 200 <= response.status <= 599:
            response.close()
            raise aiohttp.ClientPayloadError(f"status {response.status}")
        return _Response(response)


class _Connector(aiohttp.TCPConnector):
    """Tells its caller whether the connection that it hands out has been used before."""

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        used = connection.protocol.__dict__
        _reused.set("served" in used)
        used["served"] = True
        return connection


class _Response:
    """See `UpstreamResponse`."""

    __slots__ = ("_protocol", "_response", "complete", "error", "headers", "ready", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        connection = response.connection
        self._protocol = connection.protocol if connection is not None else None
        self.status = response.status
        self.headers: Headers = [(name.lower(), value) for name, value in response.raw_headers]
        self.ready = False
        self.complete = False
        self.error: UpstreamError | None = None

    def rest(self) -> None:
        """See `UpstreamResponse.rest`: this engine does not tell."""

    async def read(self) -> bytes:
        """See `UpstreamResponse.read`."""
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.error = _mapped(error)
            return b""
        if chunk:
            return chunk
        # A body that ends with its connection looks whole to aiohttp also after a reset.
        if self._protocol is not None and isinstance(self._protocol.exception(), aiohttp.ClientOSError):
            self.error = UpstreamBroken("the upstream reset the connection")
        else:
            self.complete = True
        return b""

    async def pour(self, into: Callable[[bytes], bool]) -> None:
        """See `UpstreamResponse.pour`: this engine's reader has no such step."""

    async def aclose(self) -> None:
        """See `UpstreamResponse.aclose`."""
        self._response.close()


def _mapped(error: BaseException) -> UpstreamError:
    """Our error for one of aiohttp's. Texts of theirs may quote the URL and with it a key: only the class is named."""
    name = type(error).__name__
    unreachable = aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError | aiohttp.InvalidURL
    if isinstance(error, unreachable | aiohttp.ClientHttpProxyError):
        return UpstreamUnreachable(f"cannot connect to the upstream ({name})")
    if isinstance(error, TimeoutError):
        return UpstreamTimeout("the upstream sent nothing within timeout_s")
    return UpstreamBroken(f"the upstream ended the exchange early ({name})")


def _answered(error: Exception) -> bool:
    """Whether part of an answer's head had come."""
    return isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str)


def _text(raw: bytes) -> str:
    """A header as aiohttp takes it: it writes UTF-8; anything else is kept readable."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


@lru_cache(maxsize=64)
def _timeout(timeout_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=None, connect=None, sock_connect=min(CONNECT_TIMEOUT_S, timeout_s), sock_read=timeout_s
    )
