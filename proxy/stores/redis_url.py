"""`store.url` for Redis: one server, Sentinel or Cluster, with or without TLS, with or without a user (ACL).

    redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]             rediss:// the same over TLS
    redis+sentinel://[…@]HOST[:PORT],HOST[:PORT]/SERVICE[/DB]       rediss+sentinel://
    redis+cluster://[…@]HOST[:PORT],HOST[:PORT]                     rediss+cluster://

Options behind `?`: timeout_s (the longest that a call waits, 0.25 unless said); ssl_ca_certs, ssl_certfile,
ssl_keyfile (paths) with TLS; sentinel_username, sentinel_password.
Names, passwords and paths are percent-decoded. Errors never show the URL, since it may hold a password.
"""

import contextlib
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from proxy.errors import SettingsError

_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_PORTS = {"": 6379, "sentinel": 26379, "cluster": 6379}
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]@\s]+))(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisTarget:
    """Where Redis is and how to get in."""

    kind: str
    """"" for one server, else sentinel or cluster."""
    hosts: tuple[tuple[str, int], ...]
    tls: bool
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    timeout_s: float = 0.25
    service: str = ""
    """Sentinel's name for the primary."""
    db: int = 0
    options: dict[str, str] = field(default_factory=dict, repr=False)


def read_redis_url(url: str) -> RedisTarget:
    """The target that the URL names; SettingsError says what is wrong with it."""
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    tls = scheme == "rediss"
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    steps = [unquote(step) for step in parts.path.split("/") if step]
    service = _service(kind, steps)
    options = _options(parts.query, [*(_TLS_OPTIONS if tls else ()), *(_SENTINEL_OPTIONS if service else ())])
    return RedisTarget(
        kind=kind,
        hosts=_hosts(hosts, kind),
        tls=tls,
        username=unquote(username) or None,
        password=unquote(password) or None,
        service=service,
        db=_db(kind, steps),
        timeout_s=_timeout(options.pop("timeout_s", "0.25")),
        options=options,
    )


def _hosts(text: str, kind: str) -> tuple[tuple[str, int], ...]:
    found = []
    for place in text.split(","):
        match = _HOST.fullmatch(place)
        if match is None or not 0 < int(match["port"] or _PORTS[kind]) < 65536:
            raise SettingsError("store.url: expected HOST or HOST:PORT, or several of them with commas, behind ://")
        found.append((match["six"] or match["name"], int(match["port"] or _PORTS[kind])))
    if not kind and len(found) > 1:
        raise SettingsError("store.url: several hosts need redis+sentinel:// or redis+cluster://")
    return tuple(found)


def _service(kind: str, steps: list[str]) -> str:
    if kind != "sentinel":
        return ""
    if not steps:
        raise SettingsError(
            "store.url: Sentinel needs the service's name: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE"
        )
    return steps.pop(0)


def _db(kind: str, steps: list[str]) -> int:
    if not steps:
        return 0
    if kind == "cluster" or len(steps) > 1 or not steps[0].isdecimal():
        raise SettingsError("store.url: behind the host stands the database's number, and with Cluster nothing")
    return int(steps[0])


def _options(query: str, allowed: list[str]) -> dict[str, str]:
    allowed = ["timeout_s", *allowed]
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in allowed:
            raise SettingsError(f"store.url: unknown option {name!r}; known here: {', '.join(allowed)}")
    return options


def _timeout(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.01 <= float(text) <= 30:
            return float(text)
    raise SettingsError("store.url: timeout_s is a number of seconds from 0.01 to 30")
