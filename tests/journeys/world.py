"""Two equal providers, one reached directly and one through the proxy as it is served."""

import re
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from proxy.demo.provider import Provider, echo
from proxy.server.assembly import assembled
from proxy.server.protocol import Protocol
from proxy.settings.values import Settings, Store, Upstream
from tests.server.house import MODEL, a_provider
from tests.serving import serving

__all__ = ["MODEL", "World", "a_world", "comparable", "thinking"]


@dataclass
class World:
    direct_url: str
    proxy_url: str
    direct: Provider
    behind: Provider


def thinking(asked, headers):
    """Answers of a model that thinks before it speaks."""
    return replace(echo(asked, headers), reasoning="I should think about this. " * 3)


@asynccontextmanager
async def a_world(*, upstream=None, provider=None, **sections):
    """`provider`: arguments of both providers; `sections`: of the proxy's settings."""
    async with AsyncExitStack() as stack:
        direct, behind = a_provider(**(provider or {})), a_provider(**(provider or {}))
        direct_url = await stack.enter_async_context(serving(direct))
        behind_url = await stack.enter_async_context(serving(behind))
        there = Upstream(**{"base_url": behind_url, "timeout_s": 5.0, **(upstream or {})})
        settings = Settings(
            upstreams=dict.fromkeys(("openai", "anthropic", "gemini"), there),
            **{"store": Store(url="memory://"), **sections},
        )
        app = await stack.enter_async_context(assembled(settings))
        proxy_url = await stack.enter_async_context(serving(app, http=Protocol))
        yield World(direct_url=direct_url, proxy_url=proxy_url, direct=direct, behind=behind)


_MOMENT = re.compile(r"created|create_time|date|sdk_http_response|parsed")


def comparable(value: Any) -> Any:
    """An SDK's answer as plain values, without what differs from second to second."""
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if not _MOMENT.search(key)}
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return value
