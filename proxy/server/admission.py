"""What a request's head decides before anything of its body is read: whether the call comes in, where it goes, and for whom.

A client says the same with every call of a connection, but for the length of the body. So what followed from one head is kept
for the next call, as long as the connection lasts and no longer: it holds credentials.
"""

from collections.abc import Mapping
from itertools import chain

import msgspec

from proxy.errors import BodyTooLarge, UnknownUpstream, UpgradeRefused
from proxy.server.caller import caller_of
from proxy.server.engines.base import Way
from proxy.server.incoming import Message
from proxy.server.keys import KeyRing, with_own_key
from proxy.settings.detours import detour_of
from proxy.settings.values import Settings, Upstream
from proxy.wire.headers import Headers, check_request, is_length, lines_of, to_upstream, wants_websocket
from proxy.wire.path import Route

_MOST_KEPT_BYTES = 8 * 1024
"""Of a head that is kept: those of SDKs have 1 KB, and thousands of connections may be open."""
_LENGTH = b"content-length"


class Admitted(msgspec.Struct, kw_only=True, eq=False):
    """What follows from a head that was let in."""

    named: Mapping[bytes, bytes]
    """The first value under each name of the client's headers, but for the length of the body."""
    route: Route
    way: Way
    target: bytes
    """What the upstream is asked for, behind its address."""
    query: bytes
    """As it goes on: without the client's key where the upstream has one of its own."""
    headers: Headers
    """As they go on, likewise. The list stays as it is."""
    lines: bytes
    """The same as they stand on the wire."""
    key_name: str
    """Of the proxy key that came; empty when none is required."""
    found: str | None = None

    def caller(self) -> str:
        """Whose call it is, see `caller_of`; found when it is first asked for."""
        if self.found is None:
            self.found = caller_of(self.named, self.query, key_name=self.key_name)
        return self.found


class Kept(msgspec.Struct, frozen=True, eq=False):
    """The head of a connection's last call, and what followed from it."""

    asked: tuple[str, bytes, bytes]
    """Method, path and query."""
    before: Headers
    """Those in front of the length of the body."""
    after: Headers
    """Those behind it."""
    admitted: Admitted

    def fits(self, scope: Message, limit_bytes: int) -> bool:
        """Whether a call says the same once more, of a body with any length up to the limit."""
        headers, at = scope["headers"], len(self.before)
        if headers[:at] != self.before or headers[at + 1 :] != self.after or len(headers) == at:
            return False
        if (scope["method"], scope["raw_path"], scope["query_string"]) != self.asked:
            return False
        name, value = headers[at]
        return name == _LENGTH and is_length(value) and int(value) <= limit_bytes


def kept(scope: Message, admitted: Admitted) -> Kept | None:
    """What to keep for the next call; None where no head can be the same, or this one is too large."""
    asked, headers = (scope["method"], scope["raw_path"], scope["query_string"]), scope["headers"]
    places = [at for at, (name, _) in enumerate(headers) if name == _LENGTH]
    if len(places) != 1 or sum(map(len, chain(asked, *headers))) > _MOST_KEPT_BYTES:
        return None
    return Kept(asked, headers[: places[0]], headers[places[0] + 1 :], admitted)


class Door:
    """Who may come in, and the ways that lead on."""

    def __init__(self, settings: Settings) -> None:
        self.limit_bytes = settings.server.max_body_mb * 1024 * 1024
        """Of a request's body."""
        self._ways = {name: way_to(upstream) for name, upstream in settings.upstreams.items() if upstream.base_url}
        self._own_keys = {name: upstream.api_key for name, upstream in settings.upstreams.items()}
        self._keys = KeyRing(settings.server.require_keys)

    def admit(self, scope: Message, route: Route) -> Admitted:
        """Let a call in, or raise the ProxyError that refuses it."""
        headers, query = scope["headers"], scope["query_string"]
        own_key = self._own_keys.get(route.upstream_name, "")
        # First the key: who has none learns nothing, not even which upstreams there are.
        key_name = self._keys.check(headers, query, own_api_key=bool(own_key))
        way = self._ways.get(route.upstream_name)
        if way is None:
            raise UnknownUpstream(
                f"no upstream {route.upstream_name!r} has an address; --upstream NAME=URL gives it one"
            )
        named = check_request(headers)
        if wants_websocket(named):
            raise UpgradeRefused("WebSocket is not served here; send the same call over HTTP")
        if int(named.pop(_LENGTH, b"0")) > self.limit_bytes:
            raise BodyTooLarge(f"the request body is larger than {self.limit_bytes} bytes (server.max_body_mb)")
        onward = headers
        if own_key:
            onward, query = with_own_key(headers, query, upstream_name=route.upstream_name, api_key=own_key)
        onward = to_upstream(onward)
        return Admitted(
            named=named,
            route=route,
            way=way,
            target=route.rest_path.encode("latin-1") + (b"?" + query if query else b""),
            query=query,
            headers=onward,
            lines=lines_of(onward),
            key_name=key_name,
        )


def way_to(upstream: Upstream) -> Way:
    """How a configured upstream is reached."""
    return Way(
        url_base=upstream.base_url.rstrip("/"),
        timeout_s=upstream.timeout_s,
        ca_file=upstream.ca_file or None,
        detour=detour_of(upstream.http_proxy),
    )
