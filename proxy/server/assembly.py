"""What a serving process is made of, opened in order and closed in reverse."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from proxy.server.app import App, run
from proxy.server.board import Board
from proxy.server.control import control_plane, pages
from proxy.server.control.desk import Desk
from proxy.server.engines import DEFAULT, ENGINES
from proxy.server.events import configure
from proxy.server.handler import Handler
from proxy.server.tokenizers import DEFAULT_ENCODING, counter
from proxy.server.watch import Watch
from proxy.settings.values import Settings
from proxy.stores import open_resilient

_HOUR_S = 3600.0

log = structlog.get_logger("proxy")


@asynccontextmanager
async def assembled(settings: Settings) -> AsyncIterator[App]:
    """The App with its engine, its store, its handler and its own pages."""
    # Loaded before the first call instead of during it: 55 ms.
    counter(DEFAULT_ENCODING)("")
    watch = Watch()
    ttl_s = settings.store.ttl_hours * _HOUR_S
    ledger = open_resilient(settings.store.url, ttl_s=ttl_s, clock=time.time, on_change=watch.store_changed)
    watch.looks_at_store(lambda: ledger.healthy, lambda: ledger.failures)
    if ledger.note:
        log.warning("store_note", note=ledger.note)
    engine = ENGINES[DEFAULT]()
    board = Board(ledger, settings.mode)
    handler = Handler(settings, ledger, engine, board=board, watch=watch)
    desk = Desk(settings=settings, ledger=ledger, board=board, watch=watch, clock=time.time)
    control = control_plane(desk, pages.routes())
    await board.start()
    try:
        yield App(settings, engine, handler=handler, control=control, leave=watch.feed.end)
    finally:
        await board.aclose()
        await handler.aclose()
        await engine.aclose()
        await ledger.close()


def serve(settings: Settings, announce: Callable[[str, int], None] = lambda _host, _port: None) -> int:
    """Serve until a signal ends it; gives the exit code. `announce` is told the address once it listens."""
    configure(form=settings.log.format, level=settings.log.level)
    return run(settings, assemble=assembled, announce=announce)
