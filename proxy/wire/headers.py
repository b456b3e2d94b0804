"""Raw header lists: what each hop keeps for itself, and what a request may not say.

Headers are `list[tuple[bytes, bytes]]` with lower-case names, in their order, duplicates kept (two `set-cookie` stay
two). Rules: RFC 9110 section 7.6.1 (hop-by-hop), RFC 9112 sections 5.2 and 6.1–6.3 (folding, framing).
"""

import re
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter

from proxy.errors import BadRequest

Headers = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_UPSTREAM = _HOP_BY_HOP | {
    # Written anew by the next hop's client.
    b"host",
    b"content-length",
    b"expect",
    # Meant for us.
    b"x-context-mode",
    b"x-context-session",
    b"x-proxy-key",
}
_NOT_CLIENT = _HOP_BY_HOP | {
    # Ours to say: where the upstream is a proxy of this kind, what it says is about what we sent it.
    b"x-context-session",
    b"x-context-estimated-input-tokens",
    b"x-context-basis",
    b"x-context-removed-tokens",
    b"x-context-compacted",
    b"x-context-mode",
}
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"host"})
_MOST_DIGITS = 20
"""Of a length in 64 bits."""
_AS_LINE = b": ".join
_VALUE = itemgetter(1)
_ADDRESS = re.compile(rb"\nx(?:-upstream-.*|-portkey-custom-host|(?:-.*)?-base-?url)$", re.MULTILINE)
"""Behind a line end, the name of a header that names an address."""
_CONTROL = bytes(range(9)) + bytes(range(10, 32)) + b"\x7f"


def check_request(headers: Headers) -> dict[bytes, bytes]:
    """The first value under each name.

    Raises BadRequest for framing that two readers could understand differently, and for headers naming an address.
    """
    named = dict(reversed(headers))
    if len(named) < len(headers):
        _check_repeated(headers)
    address = _ADDRESS.search(b"\n".join((b"", *named)))
    if address is not None:
        raise BadRequest(f"{address[0].strip().decode('latin-1')}: a request cannot choose an upstream address")
    joined = b"".join(map(_VALUE, headers))
    # Numbers: looking for bytes in bytes raises and swallows an error each time.
    if 0x0D in joined or 0x0A in joined or 0 in joined:
        raise BadRequest("a header value spans lines or contains NUL")
    length = named.get(b"content-length")
    if length is not None and not is_length(length):
        raise BadRequest("content-length is not a number of at most 20 digits")
    coding = named.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise BadRequest("content-length together with transfer-encoding")
        if coding.strip().lower() != b"chunked":
            raise BadRequest("transfer-encoding other than chunked")
    return named


def to_upstream(headers: Headers, *, drop: Collection[bytes] = ()) -> Headers:
    """The client's headers as the upstream may see them; `drop`: further lower-case names to leave out."""
    return _without(headers, _NOT_UPSTREAM, drop)


def to_client(headers: Headers, *, status: int, drop: Collection[bytes] = ()) -> Headers:
    """The upstream's headers as the client may see them.

    Content-Length stays (it is true as long as the body is untouched), but not where there is no body to have a
    length (204, 304). A header that no server could write again (control characters) is left out.
    """
    kept = _without(headers, _NOT_CLIENT, (*drop, b"content-length") if status in (204, 304) else drop)
    joined = b"".join(map(_VALUE, kept))
    if len(joined.translate(None, _CONTROL)) != len(joined):
        kept = [(name, value) for name, value in kept if value == value.translate(None, _CONTROL)]
    return kept


def lines_of(headers: Headers) -> bytes:
    """The headers as they stand on the wire, each with the end of its line."""
    return b"\r\n".join((*map(_AS_LINE, headers), b""))


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value under a lower-case name; None when there is none."""
    for key, value in headers:
        if key == name:
            return value
    return None


def listed(headers: Iterable[tuple[bytes, bytes]], name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The header `name` as one comma-separated list with `value` in it, behind what all of that name list already."""
    before = b",".join(one for known, one in headers if known == name and one)
    if not before:
        return name, value
    return name, before if value in [one.strip() for one in before.split(b",")] else before + b"," + value


def with_listed(headers: Headers, name: bytes, value: bytes) -> Headers:
    """The headers with `value` in the comma-separated list `name`, which then stands once and last."""
    return [*(header for header in headers if header[0] != name), listed(headers, name, value)]


def content_length(headers: Headers) -> int | None:
    """The declared body length in bytes; None when it is not declared (or not a number)."""
    value = first(headers, b"content-length")
    return int(value) if value is not None and is_length(value) else None


def is_length(value: bytes) -> bool:
    """Whether this is a body's length; of very many digits, zeros in front among them, Python makes no number."""
    return value.isdigit() and len(value) <= _MOST_DIGITS


def wants_websocket(named: Mapping[bytes, bytes]) -> bool:
    """Whether the request asks to leave HTTP for a WebSocket (other upgrades, as h2c, may be ignored: RFC 9110 7.8)."""
    upgrade = named.get(b"upgrade")
    return upgrade is not None and b"websocket" in upgrade.lower()


def wants_page(method: str, headers: Headers) -> bool:
    """Whether the request comes from a browser that was sent to this address, and wants something to show.

    Java's own HTTP client names `text/html` first with every call, so the method tells, too.
    """
    return method == "GET" and b"text/html" in (first(headers, b"accept") or b"")


def is_event_stream(headers: Headers) -> bool:
    """Whether an answer is a stream of server-sent events."""
    return (first(headers, b"content-type") or b"").lower().startswith(b"text/event-stream")


def _check_repeated(headers: Headers) -> None:
    framing: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _FRAMING and framing.setdefault(name, value) != value:
            raise BadRequest(f"conflicting {name.decode()} headers")


def _without(headers: Headers, names: frozenset[bytes], drop: Collection[bytes]) -> Headers:
    """All but those under `names`, which hold `connection`, those that a Connection header lists, and `drop`."""
    kept: Headers = []
    further = drop
    for header in headers:
        if header[0] not in names:
            kept.append(header)
        elif header[0] == b"connection":
            further = {*further, *(token.strip().lower() for token in header[1].split(b","))}
    return [header for header in kept if header[0] not in further] if further else kept
