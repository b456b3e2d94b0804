"""Request paths: what is refused, and which upstream a path belongs to.

The path is judged in every reading that some hop behind us may choose (raw, percent-decoded once, twice, …) and then
sent as it came: a path that would mean something else after normalisation is refused, never repaired.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from proxy.errors import BadRequest
from proxy.wire.headers import Headers

_SUSPICIOUS = re.compile(r"[%\\\x00-\x20\x7f]|/\.|^\.")
_FORBIDDEN_BYTES = re.compile(rb"[\\\x00-\x1f\x7f]")
_DECODINGS = 4
"""Layers of percent-encoding that are unpacked before a path counts as hostile."""
_METHOD_CALL = re.compile(r"/v1/models/(?!ft:)[^/]*:")
"""`/v1/models/NAME:method`; fine-tuned model names (`ft:…`) have colons of their own."""
_LONGEST_KNOWN = 256
"""Longer paths are not kept in memory."""
_GEMINI = ("/v1beta/", "/v1alpha/", "/upload/v1beta/", "/upload/v1alpha/")
_OPENAI = ("/chat/completions", "/responses")
_CLIENT_OF = {b"anthropic-version": "anthropic", b"x-goog-api-key": "gemini", b"x-goog-api-client": "gemini"}
"""Headers that the clients of one API send with every request, and no others."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes."""

    upstream_name: str
    rest_path: str
    """What follows the upstream's base URL, percent-encoded as it came, starting with a slash."""
    family: str
    """openai | anthropic | gemini: whose error format the client reads."""
    shared: bool = False
    """Several APIs have such a path (`/v1/models`, `/v1/files`), see `claimed`."""


def check_path(raw_path: str) -> None:
    """Raise BadRequest for dot segments, backslashes and control bytes, in any depth of percent-encoding."""
    if not _SUSPICIOUS.search(raw_path):
        return
    reading = raw_path.encode("latin-1", "replace")
    for _ in range(_DECODINGS):
        if _FORBIDDEN_BYTES.search(reading):
            raise BadRequest("the path contains a backslash or a control character")
        # ";" begins path parameters in some servers: "/..;x/" is a dot segment there.
        if any(segment.partition(b";")[0] in (b".", b"..") for segment in reading.split(b"/")):
            raise BadRequest("the path contains a dot segment")
        decoded = unquote_to_bytes(reading)
        if decoded == reading:
            break
        reading = decoded
    else:
        raise BadRequest("the path is percent-encoded too many times")
    try:
        reading.decode()
    except UnicodeDecodeError as error:
        # Overlong forms of "." and "/" live here.
        raise BadRequest("the path is not UTF-8") from error


def route(raw_path: str) -> Route:
    """The upstream and the path there, for a path that `check_path` let through; raises BadRequest otherwise."""
    return _known_route(raw_path) if len(raw_path) <= _LONGEST_KNOWN else _route(raw_path)


def _route(raw_path: str) -> Route:
    check_path(raw_path)
    return unchecked(raw_path)


def unchecked(raw_path: str) -> Route:
    """Where a path would lead that may have been refused: tells in whose format its client reads the refusal."""
    if raw_path.startswith("/up/"):
        name, slash, rest = raw_path[4:].partition("/")
        return Route(name, slash + rest or "/", _family(slash + rest))
    family = _family(raw_path)
    return Route(family, raw_path, family, family == "openai" and not raw_path.endswith(_OPENAI))


def claimed(goal: Route, headers: Headers) -> Route:
    """Where a shared path leads for the client that asks: to the API whose header it sends, else as the path says.

    A key must not go to another vendor than the one it is of.
    """
    if not goal.shared:
        return goal
    name = next((_CLIENT_OF[name] for name, _ in headers if name in _CLIENT_OF), goal.upstream_name)
    return Route(name, goal.rest_path, name)


_known_route = lru_cache(maxsize=256)(_route)
"""Clients ask for few paths, again and again."""


def _family(path: str) -> str:
    if path == "/v1/messages" or path.startswith("/v1/messages/"):
        return "anthropic"
    if path.startswith(_GEMINI) or _METHOD_CALL.match(path):
        return "gemini"
    return "openai"
