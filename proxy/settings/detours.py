"""HTTP proxies on the way to upstreams: which of them the environment names, as other programs read it."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from proxy.errors import SettingsError

AUTO = "auto"
_SCHEME = "http://"


def detour_of(http_proxy: str) -> str:
    """URL of the HTTP proxy that a loaded setting stands for; empty: none."""
    return "" if http_proxy == AUTO else http_proxy


def checked_detour(setting: str, url: str) -> str:
    """The URL of an HTTP proxy, with its scheme; raises SettingsError where it is none."""
    whole = url if "://" in url else _SCHEME + url
    try:
        parts = urlsplit(whole)
        usable = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        usable = False
    if not usable:
        # Not quoted: it may hold a password.
        scheme = whole.partition("://")[0]
        raise SettingsError(
            f'{setting}: expected "http://HOST:PORT", got another kind of address ({scheme}://…); '
            'for a direct way, set http_proxy = "" in [upstreams.NAME]'
        )
    return whole.rstrip("/")


def detour_in(environ: Mapping[str, str], base_url: str) -> str:
    """What the environment names for calls to `base_url`; empty: nothing. Raises SettingsError where that is no HTTP proxy.

    `HTTPS_PROXY` or `HTTP_PROXY` by the scheme of the address, else `ALL_PROXY` where it is one of HTTP; small letters win.
    `NO_PROXY` lists exceptions. This machine itself is never asked through a proxy.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if not host or is_here(base_url) or _is_excepted(environ, host, parts.port):
        return ""
    for variable in (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper()):
        if environ.get(variable):
            return checked_detour(f"environment variable {variable}", environ[variable])
    for variable in ("all_proxy", "ALL_PROXY"):
        # Often names a SOCKS proxy beside the others.
        if environ.get(variable, "").startswith(_SCHEME):
            return checked_detour(f"environment variable {variable}", environ[variable])
    return ""


def is_here(url: str) -> bool:
    """Whether an address is one of this machine alone."""
    host = ""
    # ValueError: "http://[" is no address at all, or the host is a name.
    try:
        host = urlsplit(url).hostname or ""
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_excepted(environ: Mapping[str, str], host: str, port: int | None) -> bool:
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return any(_excepts(entry.strip().lower(), host, port) for entry in listed.split(","))


def _excepts(entry: str, host: str, port: int | None) -> bool:
    """`*`, `example.com` with all below it, `.example.com`, `example.com:8000`, `10.1.2.3`, `10.0.0.0/8`."""
    if not entry or entry == "*":
        return bool(entry)
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        name, _, wanted = entry.partition(":")
        name = name.removeprefix("*").removeprefix(".")
        return (not wanted or wanted == str(port)) and (host == name or host.endswith(f".{name}"))
