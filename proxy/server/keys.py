"""Proxy keys: who may use this proxy, and the upstream keys of its own that it then spends.

Of the configured keys only digests are kept. A key is looked for in `x-proxy-key`; where the upstream has an API key of
its own, also where SDKs put theirs, since nothing of it travels on from there.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import parse_qsl, unquote_plus

from proxy.errors import Unauthorised
from proxy.settings.section import named_key
from proxy.wire.headers import Headers, first

CREDENTIALS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
"""Headers in which clients present theirs; Google's may also stand in the query, as `key`."""
_HEADER_OF = {"anthropic": b"x-api-key", "gemini": b"x-goog-api-key", "azure": b"api-key"}
"""Upstream → where its API key stands; everybody else reads `Authorization: Bearer`."""


class KeyRing:
    """The configured proxy keys, each `KEY` or `NAME=KEY`."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._names: list[tuple[bytes, str]] = []
        for entry in entries:
            name, key = named_key(entry)
            self._names.append((sha256(key.encode()).digest(), name))

    def check(self, headers: Headers, query: bytes, *, own_api_key: bool) -> str:
        """The name of the key that came; "" when none is asked for. Raises Unauthorised.

        `own_api_key`: the upstream has an API key of its own, so the client's may be a proxy key.
        """
        if not self._names:
            return ""
        for presented in _presented(headers, query, own_api_key=own_api_key):
            digest = sha256(presented).digest()
            # Every entry is compared, so that time tells nothing about which one matched.
            matching = [name for known, name in self._names if hmac.compare_digest(known, digest)]
            if matching:
                return matching[0]
        raise Unauthorised("a valid proxy key is required in the x-proxy-key header")


def with_own_key(headers: Headers, query: bytes, *, upstream_name: str, api_key: str) -> tuple[Headers, bytes]:
    """Headers and query with the client's credentials replaced by the upstream's own API key."""
    kept = [header for header in headers if header[0] not in CREDENTIALS]
    header = _HEADER_OF.get(upstream_name)
    if header is None:
        # Azure-like and Anthropic-like upstreams under other names: answer in the header that the client chose.
        header = next((name for name, _ in headers if name in CREDENTIALS[1:]), CREDENTIALS[0])
    value = api_key.encode()
    kept.append((header, b"Bearer " + value if header == b"authorization" else value))
    parts = [part for part in query.split(b"&") if unquote_plus(part.partition(b"=")[0].decode("latin-1")) != "key"]
    return kept, b"&".join(parts)


def keys_in(query: bytes) -> list[bytes]:
    """The API keys that stand in a query."""
    return [value.encode() for name, value in parse_qsl(query.decode("latin-1")) if name == "key"]


def _presented(headers: Headers, query: bytes, *, own_api_key: bool) -> list[bytes]:
    candidates = [value for name, value in headers if name == b"x-proxy-key"]
    if own_api_key:
        for name in CREDENTIALS:
            value = first(headers, name)
            if value is not None:
                candidates.append(value[7:].strip() if value[:7].lower() == b"bearer " else value)
        candidates += keys_in(query)
    return candidates
