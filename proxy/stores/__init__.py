"""I/O: the ledger in memory, on sqlite, on redis. `open_store` turns `store.url` into one of them.

memory, shelf           in this process; a bounded place
turnlog, attic          … for turns, and for originals
sqlite                  in one file, made of:
sqlite_file, sqlite_writer, sqlite_rows, sqlite_reports, sqlite_sweep
                        the file itself; its one writing thread; what is written; what reports read; what goes by itself
redis                   on Redis, made of:
redis_url, redis_client, redis_asking, redis_originals
                        where it is; its client; how it is asked; originals
resilient, patience     what stands in for a store that is down; how long one is waited for
codec, sealed           values as bytes, and sealed
url_options             what may stand behind `?` of `store.url`
"""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from proxy.errors import SettingsError
from proxy.ledger.store import Ledger
from proxy.stores.memory import MemoryStore
from proxy.stores.resilient import Resilient
from proxy.stores.sealed import Sealing, sealing_of
from proxy.stores.sqlite import PATIENCE_S, SqliteStore
from proxy.stores.url_options import options_of, patience_of

Clock = Callable[[], float]
Opener = Callable[[str, float, Clock, Sealing], Ledger]


def open_store(url: str, *, ttl_s: float, clock: Clock, key: str = "") -> Ledger:
    """The store that `store.url` names. `clock` gives Unix seconds; values live for `ttl_s` seconds.

    `key` is the passphrase of `store.key`; empty: nothing is sealed. Memory keeps nothing at rest, so nothing is there.
    SettingsError when the URL is not one of OPENERS' forms, StoreError when a well-named store cannot be opened. Redis
    connects at the first call. May block for some milliseconds (sqlite makes its file).
    """
    return _open(url, ttl_s, clock, sealing_of(key))


def _open(url: str, ttl_s: float, clock: Clock, sealing: Sealing) -> Ledger:
    scheme = url.partition("://")[0].lower()
    opener = OPENERS.get(scheme)
    if opener is None or "://" not in url:
        # The URL itself is not shown: it may hold a password.
        raise SettingsError(f"store.url: unknown scheme {scheme[:24]!r}; write one of {', '.join(OPENERS)} and ://…")
    return opener(url, ttl_s, clock, sealing)


def open_resilient(
    url: str,
    *,
    ttl_s: float,
    clock: Clock,
    key: str = "",
    on_change: Callable[[bool, str], None] = lambda _healthy, _reason: None,
) -> Resilient:
    """The same store, sheltered: its calls never fail. For the server; SettingsError for a wrong URL, as above.

    `on_change(healthy, reason)` is called once per change, on the event loop (or here, when it cannot be opened now).
    """
    sealing = sealing_of(key)
    return Resilient(lambda: _open(url, ttl_s, clock, sealing), ttl_s=ttl_s, clock=clock, on_change=on_change)


def _memory(url: str, ttl_s: float, clock: Clock, _sealing: Sealing) -> Ledger:
    if urlsplit(url).path.strip("/") or urlsplit(url).netloc:
        raise SettingsError("store.url: memory:// takes nothing behind it")
    return MemoryStore(ttl_s=ttl_s, clock=clock)


def store_file(url: str) -> Path | None:
    """The file that a sqlite store lives in; None for other stores. SettingsError when the URL names no file."""
    return _sqlite_path(url) if url.lower().startswith("sqlite://") else None


def _sqlite_path(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or path in ("", "/") or path.endswith("/"):
        raise SettingsError(
            f"store.url: expected sqlite:///absolute/path/state.db or sqlite:///~/state.db, got {url!r}"
        )
    if path.startswith("/~/"):
        path = path[1:]
    # "sqlite:////PATH", as others write it, means the same and shall be called the same.
    return Path(f"/{path.lstrip('/')}" if path.startswith("/") else path).expanduser()


def _sqlite(url: str, ttl_s: float, clock: Clock, sealing: Sealing) -> Ledger:
    patience_s = patience_of(options_of(urlsplit(url).query), PATIENCE_S)
    return SqliteStore(_sqlite_path(url), ttl_s=ttl_s, clock=clock, patience_s=patience_s, sealing=sealing)


def _redis(url: str, ttl_s: float, clock: Clock, sealing: Sealing) -> Ledger:
    # Imported here: redis-py takes a tenth of a second and 10 MB, which only those who use it should pay.
    from proxy.stores.redis import RedisStore  # noqa: PLC0415
    from proxy.stores.redis_url import read_redis_url  # noqa: PLC0415

    return RedisStore(read_redis_url(url), ttl_s=ttl_s, clock=clock, sealing=sealing)


OPENERS: dict[str, Opener] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "redis": _redis,
    "rediss": _redis,
    "redis+sentinel": _redis,
    "rediss+sentinel": _redis,
    "redis+cluster": _redis,
    "rediss+cluster": _redis,
}
"""One row per store, by the URL's scheme."""
