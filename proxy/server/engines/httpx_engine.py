"""The relay's other engine, on httpx: slower, for those who need its transports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from proxy.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from proxy.server.engines.authorities import tls_context
from proxy.server.engines.base import CONNECT_TIMEOUT_S, KEEP_ALIVE_S, PROBES, Grace, UpstreamRequest, pieces_of
from proxy.wire.headers import Headers

_PIECE_BYTES = 256 * 1024


class HttpxEngine:
    """See `Engine`. Uses httpx's transports without its client, which adds headers and follows opinions."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transports: dict[tuple[str | None, str], httpx.AsyncHTTPTransport] = {}

    async def send(self, request: UpstreamRequest) -> "_Response":
        """See `Engine.send`."""
        grace = Grace(self._loop)
        grace.begin()
        connected: list[str] = []
        try:
            return await self._attempt(request, connected)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            dead = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
            stale = not connected and grace.lasts
            if not (dead and stale) or not isinstance(request.body, bytes | None):
                raise _mapped(error) from error
        finally:
            grace.close()
        try:
            return await self._attempt(request, connected)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _mapped(error) from error

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        for transport in self._transports.values():
            await transport.aclose()

    async def _attempt(self, request: UpstreamRequest, connected: list[str]) -> "_Response":
        async def trace(event: str, _details: Any) -> None:
            # A connection of its own, and any byte of an answer, speak against a stale one.
            if event in ("connection.connect_tcp.started", "http11.receive_response_headers.complete"):
                connected.append(event)

        way = request.way
        base = httpx.URL(way.url_base)
        headers = [(b"host", base.netloc), *request.headers]
        content: Any = request.body
        if isinstance(content, bytes):
            headers.append((b"content-length", b"%d" % len(content)))
            content = pieces_of(content, _PIECE_BYTES)
        elif content is not None and not any(name == b"content-length" for name, _ in headers):
            headers.append((b"transfer-encoding", b"chunked"))
        timeout = {
            "connect": min(CONNECT_TIMEOUT_S, way.timeout_s),
            "read": way.timeout_s,
            "write": way.timeout_s,
            "pool": way.timeout_s,
        }
        target = base.raw_path.rstrip(b"/") + request.target
        # Behind a proxy, the extension would stand in the proxy's own request line.
        exact = {} if way.detour else {"target": target}
        response = await self._transport(way.ca_file, way.detour).handle_async_request(
            httpx.Request(
                request.method,
                base.copy_with(raw_path=target) if way.detour else base,
                headers=headers,
                stream=_Stream(content),
                extensions={"timeout": timeout, "trace": trace, **exact},
            )
        )
        if not 200 <= response.status_code <= 599:
            await response.aclose()
            raise httpx.RemoteProtocolError(f"status {response.status_code}")
        return _Response(response)

    def _transport(self, ca_file: str | None, detour: str) -> httpx.AsyncHTTPTransport:
        transport = self._transports.get((ca_file, detour))
        if transport is None:
            transport = self._transports[ca_file, detour] = httpx.AsyncHTTPTransport(
                verify=tls_context(ca_file),
                trust_env=False,
                socket_options=PROBES,
                proxy=httpx.Proxy(detour) if detour else None,
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_S
                ),
            )
        return transport


class _Stream(httpx.AsyncByteStream):
    """A request body without the headers that httpx derives from one."""

    def __init__(self, content: AsyncIterator[bytes] | None) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._content is not None:
            async for piece in self._content:
                yield piece


class _Response:
    """See `UpstreamResponse`."""

    __slots__ = ("_raw", "_response", "complete", "error", "headers", "ready", "status")

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._raw: AsyncIterator[bytes] = aiter(response.stream)  # type: ignore[arg-type]
        self.status = response.status_code
        self.headers: Headers = [(name.lower(), value) for name, value in response.headers.raw]
        self.ready = False
        self.complete = False
        self.error: UpstreamError | None = None

    def rest(self) -> None:
        """See `UpstreamResponse.rest`: this engine does not tell."""

    async def read(self) -> bytes:
        """See `UpstreamResponse.read`."""
        if self.error is not None:
            # The iterator that has raised would end now, as if the body were whole.
            return b""
        try:
            async for chunk in self._raw:
                if chunk:
                    return chunk
        except (httpx.HTTPError, OSError) as error:
            self.error = _mapped(error)
            return b""
        self.complete = True
        # Who is cancelled in the middle of it would leave the connection neither kept nor closed.
        await asyncio.shield(self._response.aclose())
        return b""

    async def pour(self, into: Callable[[bytes], bool]) -> None:
        """See `UpstreamResponse.pour`: this engine's reader has no such step."""

    async def aclose(self) -> None:
        """See `UpstreamResponse.aclose`."""
        await self._response.aclose()


def _mapped(error: Exception) -> UpstreamError:
    """Our error for one of httpx's; only its class is named, since its text may quote the URL."""
    name = type(error).__name__
    unreachable = httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError
    if isinstance(error, unreachable | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return UpstreamUnreachable(f"cannot connect to the upstream ({name})")
    if isinstance(error, httpx.TimeoutException):
        return UpstreamTimeout("the upstream sent nothing within timeout_s")
    return UpstreamBroken(f"the upstream ended the exchange early ({name})")
