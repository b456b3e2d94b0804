"""What a serving process is made of, opened in order and closed in reverse."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from proxy.errors import SettingsError
from proxy.server.app import App, run
from proxy.server.board import Board
from proxy.server.control import control_plane, pages
from proxy.server.control.desk import Desk
from proxy.server.descriptors import raise_limit
from proxy.server.engines import DEFAULT, ENGINES
from proxy.server.events import configure, outlet
from proxy.server.handler import Handler
from proxy.server.heap import given_back, map_large_blocks
from proxy.server.tokenizers import DEFAULT_ENCODING, counter
from proxy.server.watch import Watch
from proxy.settings.values import Settings
from proxy.stores import open_resilient

if TYPE_CHECKING:
    from proxy.server.tracing import Tracing

_HOUR_S = 3600.0

log = structlog.get_logger("proxy")


@asynccontextmanager
async def assembled(settings: Settings) -> AsyncIterator[App]:
    """The App with its engine, its store, its handler and its own pages."""
    # Loaded before the first call instead of during it: 55 ms.
    counter(DEFAULT_ENCODING)("")
    watch = Watch()
    tracing = _tracing(settings)
    if tracing is not None:
        watch.trace = tracing.take
    ttl_s = settings.store.ttl_hours * _HOUR_S
    store = settings.store
    ledger = open_resilient(store.url, ttl_s=ttl_s, clock=time.time, key=store.key, on_change=watch.store_changed)
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
        async with given_back():
            yield App(settings, engine, handler=handler.take, control=control, leave=watch.feed.end, join=watch.join)
    finally:
        await watch.numbers.aclose()
        await board.aclose()
        await handler.aclose()
        await engine.aclose()
        await ledger.close()
        if tracing is not None:
            await tracing.aclose()


def _tracing(settings: Settings) -> "Tracing | None":
    """The exporter of traces, where a collector is named; raises SettingsError without its extra."""
    if not settings.log.otlp_endpoint:
        return None
    return _tracing_class().to(settings.log.otlp_endpoint, time.time)


def _tracing_class() -> "type[Tracing]":
    try:
        from proxy.server.tracing import Tracing  # noqa: PLC0415  an optional extra, and 500 ms of imports
    except ModuleNotFoundError as error:
        raise SettingsError(
            "log.otlp_endpoint (or OTEL_EXPORTER_OTLP_ENDPOINT): spans need an extra that is not installed; "
            "run `pip install 'pruning-proxy[otel]'`"
        ) from error
    return Tracing


def serve(settings: Settings, announce: Callable[[str, int], None] = lambda _host, _port: None) -> int:
    """Serve until a signal ends it; gives the exit code. `announce` is told the address once it listens."""
    configure(form=settings.log.format, level=settings.log.level, for_good=True)
    map_large_blocks()
    raise_limit()
    if settings.log.otlp_endpoint:
        # Said once, here, instead of by each worker.
        _tracing_class()
    try:
        return run(settings, assemble=assembled, announce=announce)
    finally:
        if (out := outlet()) is not None:
            out.close()
