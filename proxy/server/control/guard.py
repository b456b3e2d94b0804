"""Who may see the control plane: this machine, or whoever has the admin token.

A browser on this machine can be made to ask on behalf of a foreign page. Two checks stop that: the Host must be a name
of this machine (a foreign name that resolves to 127.0.0.1 is still a foreign name), and what changes something must
come from a page of the same origin. Whoever brings the token has proven more than either.

The connection's own address counts; what a header says about it never does. A request that was forwarded to us is
nobody's local request, whoever forwarded it.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from proxy.server.heartbeat import Send
from proxy.server.incoming import Message, Receive
from proxy.server.refusals import send_json
from proxy.wire.body import dumps
from proxy.wire.headers import Headers, first

OPEN = frozenset({"/healthz", "/readyz"})
"""For orchestrators; they say nothing about anybody."""
_FILES = "/_proxy/static/"
_HOME = frozenset({"/", "/_proxy", "/_proxy/"})
"""The dashboard's own files are the same for everybody; where there is a token, they are what asks for it."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


class Guard:
    """Stands in front of the control plane's ASGI app."""

    def __init__(self, app: ASGIApp, *, token: str, host: str) -> None:
        """`token`: empty for none. `host`: the name that the server was told to listen on."""
        self._app = app
        self._token = sha256(token.encode()).digest() if token else b""
        self._hosts = frozenset({"localhost", host.lower().strip("[]")})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        reason = "" if scope["path"] in OPEN or self._asks_for_token(scope) else self.refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message.get("headers", ())}
                added = [header for header in _HEADERS if header[0] not in given]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        if not reason:
            await self._app(scope, receive, guarded)
            return
        status, kind = (401, "authentication_error") if reason == _WHO else (403, "permission_error")
        extra = ((b"www-authenticate", b"Bearer"),) if status == 401 else ()
        await send_json(guarded, status, dumps({"error": {"type": kind, "message": reason}}), extra)

    def refusal(self, scope: Message) -> str:
        """Why the request may not pass; empty when it may."""
        headers: Headers = scope["headers"]
        if not self._has_token(headers):
            if not _is_local(scope):
                return _WHO
            if not self._is_ours(first(headers, b"host")):
                return "the Host is not a name of this machine"
        if scope["method"] not in _SAFE and not _is_same_origin(headers):
            return "a page of another origin may not change anything here"
        return ""

    def _asks_for_token(self, scope: Message) -> bool:
        # Navigation sends no authorization header: without its files the page could never ask for the token.
        path: str = scope["path"]
        return bool(self._token) and scope["method"] in _SAFE and (path in _HOME or path.startswith(_FILES))

    def _has_token(self, headers: Headers) -> bool:
        given = first(headers, b"authorization") or b""
        if not self._token or given[:7].lower() != b"bearer ":
            return False
        return hmac.compare_digest(sha256(given[7:].strip()).digest(), self._token)

    def _is_ours(self, host: bytes | None) -> bool:
        name = _name_of(host)
        return name in self._hosts or name.endswith(".localhost") or _is_loopback(name)


_WHO = "the control plane answers this machine, or a bearer of server.admin_token"


def _is_local(scope: Message) -> bool:
    client = scope.get("client")
    forwarded: Iterable[bytes] = (name for name, _ in scope["headers"] if name in _FORWARDED)
    return client is not None and _is_loopback(client[0]) and next(iter(forwarded), None) is None


def _is_loopback(name: str) -> bool:
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _name_of(host: bytes | None) -> str:
    """The host of a Host header, lower case, without port and brackets; empty when it is none."""
    try:
        return urlsplit("//" + (host or b"").decode("latin-1")).hostname or ""
    except ValueError:
        return ""


def _is_same_origin(headers: Headers) -> bool:
    """Programs send neither header; browsers send both, and pages cannot forge them."""
    if (first(headers, b"sec-fetch-site") or b"same-origin") not in (b"same-origin", b"none"):
        return False
    origin = first(headers, b"origin")
    if origin is None:
        return True
    scheme, _, rest = origin.lower().partition(b"://")
    return scheme in (b"http", b"https") and rest == (first(headers, b"host") or b"").lower()
