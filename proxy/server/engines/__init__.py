"""I/O: HTTP clients behind one Protocol; `ENGINES` is the table."""

from collections.abc import Callable

from proxy.server.engines.aiohttp_engine import AiohttpEngine
from proxy.server.engines.base import Engine
from proxy.server.engines.httpx_engine import HttpxEngine
from proxy.server.engines.lean_engine import LeanEngine

DEFAULT = "lean"
"""By CPU a call: behind one relay, aiohttp takes twice what lean does, httpx ten times."""

ENGINES: dict[str, Callable[[], Engine]] = {"lean": LeanEngine, "aiohttp": AiohttpEngine, "httpx": HttpxEngine}
"""Name → maker, to be called inside a running event loop."""
