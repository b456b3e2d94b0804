"""`store.url` for Redis: one server, Sentinel or Cluster, with or without TLS, with or without a user (ACL).

    redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]             rediss:// the same over TLS
    redis+sentinel://[…@]HOST[:PORT],HOST[:PORT]/SERVICE[/DB]       rediss+sentinel://
    redis+cluster://[…@]HOST[:PORT],HOST[:PORT]                     rediss+cluster://

Options behind `?`: timeout_s (the longest that a call waits, 0.25 unless said); ssl_ca_certs, ssl_certfile,
ssl_keyfile (paths) with TLS; sentinel_username, sentinel_password.
Names, passwords and paths are percent-decoded. Errors never show the URL, since it may hold a password.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from proxy.errors import SettingsError
from proxy.stores.url_options import options_of, patience_of

_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_PATIENCE_S = 0.25
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
    timeout_s: float = _PATIENCE_S
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
    options = options_of(parts.query, [*(_TLS_OPTIONS if tls else ()), *(_SENTINEL_OPTIONS if service else ())])
    return RedisTarget(
        kind=kind,
        hosts=_hosts(hosts, kind),
        tls=tls,
        username=unquote(username) or None,
        password=unquote(password) or None,
        service=service,
        db=_db(kind, steps),
        timeout_s=patience_of(options, _PATIENCE_S),
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
