"""What must be right between settings, beyond the type of each."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from proxy.errors import SettingsError
from proxy.settings.detours import AUTO, checked_detour, is_here
from proxy.settings.section import named_key
from proxy.settings.sources import Where, dotted
from proxy.settings.values import Log, Server, Settings, Upstream

STORE_SCHEMES = (
    "sqlite",
    "redis",
    "rediss",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "memory",
)
"""Of the stores that can be opened; a test holds them to `stores.OPENERS`, which this room does not know."""

_LEAST_KEY = 16
"""Characters of a passphrase; a shorter one is guessed, however much a guess costs."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def checked(settings: Settings, origins: Mapping[Where, str]) -> Settings:
    """The settings with normal base URLs; raises SettingsError where they contradict each other."""
    _check_keys(settings.server)
    _check_store(settings)
    _check_store_key(settings.store.key)
    if settings.prune.release >= settings.prune.engage:
        raise SettingsError(
            f"prune.release: expected less than prune.engage ({settings.prune.engage}), got {settings.prune.release}"
        )
    written = {where[1] for where in origins if where[0] == "upstreams"}
    return msgspec.structs.replace(
        settings,
        log=_log(settings.log),
        upstreams={
            name: _upstream(name, upstream, settings.server, is_written=name in written)
            for name, upstream in settings.upstreams.items()
        },
    )


def _check_keys(server: Server) -> None:
    names = [named_key(entry)[0] for entry in server.require_keys]
    keys = [named_key(entry)[1] for entry in server.require_keys]
    if not all(key.strip("= ") for key in keys):
        raise SettingsError("server.require_keys: expected KEY or NAME=KEY, got an empty entry")
    if len(set(names)) < len(names) or len(set(keys)) < len(keys):
        raise SettingsError("server.require_keys: each name and each key may stand there once")


def _check_store(settings: Settings) -> None:
    scheme = settings.store.url.partition("://")[0]
    if "://" not in settings.store.url or scheme not in STORE_SCHEMES or settings.store.url == "sqlite:///":
        raise SettingsError(
            f"store.url: expected sqlite:///PATH, redis://HOST:PORT/DB or memory://, got {scheme.partition(':')[0]!r}"
        )
    if scheme == "memory" and settings.server.workers > 1:
        raise SettingsError(
            f"store.url: {settings.server.workers} workers cannot share memory://; "
            "write sqlite:///PATH or redis://…, or server.workers = 1"
        )


def _log(log: Log) -> Log:
    if not log.otlp_endpoint:
        return log
    endpoint = base_url("log.otlp_endpoint", log.otlp_endpoint, keys_belong="in OTEL_EXPORTER_OTLP_HEADERS")
    return msgspec.structs.replace(log, otlp_endpoint=endpoint)


def _check_store_key(key: str) -> None:
    if not key:
        return
    if len(key) < _LEAST_KEY:
        raise SettingsError(f"store.key: expected at least {_LEAST_KEY} characters, got {len(key)}")
    if find_spec("cryptography") is None:
        raise SettingsError(
            "store.key: expected the library `cryptography` beside it; pip install 'pruning-proxy[encryption]'"
        )


def _check_authorities(setting: str, ca_file: str) -> None:
    """Now, since otherwise the first call would find out."""
    import ssl  # noqa: PLC0415  seldom needed, and slow to load

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(Path(ca_file).expanduser())
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"{setting}: expected a PEM file with certificates, got {ca_file!r}, which has none"
        ) from error
    except OSError as error:
        raise SettingsError(f"{setting}: expected a PEM file, cannot read {ca_file!r}: {error.strerror}") from error


def _upstream(name: str, upstream: Upstream, server: Server, *, is_written: bool) -> Upstream:
    setting = dotted(("upstreams", name))
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{setting}: expected a name of letters, digits, '.', '_' and '-', got {name!r}")
    if upstream.api_key and not server.require_keys:
        raise SettingsError(
            f"{setting}.api_key: expected server.require_keys beside it, or whoever reaches the port spends that key"
        )
    if upstream.ca_file:
        _check_authorities(f"{setting}.ca_file", upstream.ca_file)
    if not upstream.base_url and is_written:
        raise SettingsError(f'{setting}.base_url: expected the provider\'s address, like "https://HOST", got nothing')
    if is_written and _is_this_proxy(upstream.base_url, server):
        raise SettingsError(
            f"{setting}.base_url: expected the provider's address, got this proxy's own: each call would call itself for ever"
        )
    return msgspec.structs.replace(
        upstream,
        base_url=base_url(f"{setting}.base_url", upstream.base_url) if upstream.base_url else "",
        ca_file=str(Path(upstream.ca_file).expanduser()) if upstream.ca_file else "",
        http_proxy=_http_proxy(f"{setting}.http_proxy", upstream.http_proxy),
    )


def _is_this_proxy(url: str, server: Server) -> bool:
    """Whether calls to the address would come back under the same path."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return False
    near = is_here(url) or parts.hostname in (server.host, "0.0.0.0", "::")  # noqa: S104  not to listen there
    return near and port == server.port and not parts.path.startswith("/up/")


def _http_proxy(setting: str, url: str) -> str:
    return checked_detour(setting, url) if url not in ("", AUTO) else url


def base_url(setting: str, url: str, *, keys_belong: str = "in api_key") -> str:
    """What stands before `/v1…`; a version that was written with it goes, since clients bring it in their path."""
    wrong = SettingsError(
        f'{setting}: expected an address like "https://HOST/PATH" before /v1, got {url.partition("?")[0]!r}'
    )
    try:
        parts = urlsplit(url)
        has_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise wrong from error
    if parts.username is not None or parts.password is not None:
        raise SettingsError(f"{setting}: expected an address without credentials; keys belong {keys_belong}")
    if not has_address or parts.query or parts.fragment or re.search(r"[\s\\]|[^\x21-\x7e]", url):
        raise wrong
    return re.sub(r"/v1(beta)?$", "", url.rstrip("/"))
