"""I/O: HTTP clients behind one Protocol; `ENGINES` is the table."""

from collections.abc import Callable

from proxy.server.engines.aiohttp_engine import AiohttpEngine
from proxy.server.engines.base import Engine
from proxy.server.engines.httpx_engine import HttpxEngine

ENGINES: dict[str, Callable[[], Engine]] = {"aiohttp": AiohttpEngine, "httpx": HttpxEngine}
"""Name → maker, to be called inside a running event loop. aiohttp costs a tenth of httpx's CPU a call."""
