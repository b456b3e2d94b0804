"""I/O: HTTP clients behind one Protocol; `ENGINES` is the table.

base                    the Protocol
lean_engine             our own: a pool of plain connections, made of:
connection, arrivals    one kept connection; what has come on it and nobody has taken yet
detour                  … through an HTTP proxy
authorities             … over TLS: whom to trust (for all engines)
aiohttp_engine, httpx_engine
                        other people's clients
"""

from collections.abc import Callable

from proxy.server.engines.base import Engine
from proxy.server.engines.lean_engine import LeanEngine

DEFAULT = "lean"
"""By CPU a call: behind one relay, aiohttp takes twice what lean does, httpx ten times."""


def _aiohttp() -> Engine:
    # Imported when asked for, here and below: 0.2 s of every start, 20 MB.
    from proxy.server.engines.aiohttp_engine import AiohttpEngine  # noqa: PLC0415

    return AiohttpEngine()


def _httpx() -> Engine:
    from proxy.server.engines.httpx_engine import HttpxEngine  # noqa: PLC0415

    return HttpxEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"lean": LeanEngine, "aiohttp": _aiohttp, "httpx": _httpx}
"""Name → maker, to be called inside a running event loop."""
