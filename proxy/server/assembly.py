"""What a serving process is made of, opened in order and closed in reverse."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from proxy.server.app import App, ASGIApp, run
from proxy.server.engines import ENGINES
from proxy.server.events import configure
from proxy.server.handler import Handler
from proxy.server.tokenizers import DEFAULT_ENCODING, counter
from proxy.settings.values import Settings
from proxy.stores import open_resilient

_HOUR_S = 3600.0

log = structlog.get_logger("proxy")


@asynccontextmanager
async def assembled(settings: Settings) -> AsyncIterator[ASGIApp]:
    """The App with its engine, its store and its handler."""
    # Loaded before the first call instead of during it: 55 ms.
    counter(DEFAULT_ENCODING)("")
    ttl_s = settings.store.ttl_hours * _HOUR_S
    ledger = open_resilient(settings.store.url, ttl_s=ttl_s, clock=time.time, on_change=_store_changed)
    if ledger.note:
        log.warning("store_note", note=ledger.note)
    engine = ENGINES["aiohttp"]()
    handler = Handler(settings, ledger, engine)
    try:
        yield App(settings, engine, handler=handler)
    finally:
        await handler.aclose()
        await engine.aclose()
        await ledger.close()


def _store_changed(healthy: bool, reason: str) -> None:  # noqa: FBT001  the store's own signature
    """One event per change: the store went, or came back."""
    if healthy:
        log.info("store_recovered", reason=reason)
    else:
        log.warning("store_lost", reason=reason)


def serve(settings: Settings, announce: Callable[[str, int], None] = lambda _host, _port: None) -> int:
    """Serve until a signal ends it; gives the exit code. `announce` is told the address once it listens."""
    configure(form=settings.log.format, level=settings.log.level)
    return run(settings, assemble=assembled, announce=announce)
