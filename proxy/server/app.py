"""The door: a raw ASGI callable in front of every call, and the server process around it.

One check before routing, for every path but the health page; what nobody claims goes to its upstream unread.
"""

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import structlog
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route as Page

from proxy.errors import ProxyError, UpgradeRefused, UpstreamError
from proxy.server.admission import Admitted, Door, Kept, kept
from proxy.server.cycle import LASTING
from proxy.server.engines import DEFAULT, ENGINES
from proxy.server.engines.base import Engine
from proxy.server.heartbeat import Send
from proxy.server.incoming import ClientGone, Message, Receive
from proxy.server.protocol import Protocol
from proxy.server.refusals import ErrorBody, error_body, send_json
from proxy.server.relay import Exchange, Terms, relay
from proxy.server.settling import SETTLE_S, settled
from proxy.server.workers import Worker, endings, listeners, supervise
from proxy.settings.values import Settings
from proxy.wire.headers import wants_page
from proxy.wire.path import claimed, route, unchecked

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
Handler = Callable[[Exchange], Awaitable[None]]
Assemble = Callable[[Settings], AbstractAsyncContextManager["App"]]

DRAIN_S = 25.0
"""How long running streams may go on after SIGTERM: below the 30 s after which orchestrators kill."""
_PATIENCE_S = 0.5
"""After so long somebody at a terminal wonders why the process is still there."""
KEEP_ALIVE_S = 120
"""Idle client connections: longer than the pools of SDKs keep theirs, so that they close first."""
_COLLECT_EVERY = 10_000
"""Objects between two collections: calls leave no cycles behind, and looking for some at every 700 took a tenth of all CPU."""
_LAST = "last"
"""In what lasts as long as a connection: its last call's `Kept`."""
_CONTROL = frozenset({"/healthz", "/readyz", "/metrics", "/_proxy"})

log = structlog.get_logger("proxy.server")


class App:
    """Every call enters here.

    `handler` gets each call for an upstream (default: relay it unread); `control` is the ASGI app of the proxy's own
    pages (`/_proxy…`, `/metrics`, `/healthz`, `/readyz`), which guards itself. `leave` is called when the process is
    told to end, before its calls are waited for; `join` at its start, where it is one of several workers.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        *,
        handler: Handler = relay,
        control: ASGIApp | None = None,
        error_body: ErrorBody = error_body,
        leave: Callable[[], None] = lambda: None,
        join: Callable[[Worker], None] = lambda _worker: None,
    ) -> None:
        self.leave = leave
        self.join = join
        self._handler = handler
        self._control = control if control is not None else health_pages()
        self._door = Door(settings)
        self._terms = Terms(
            engine=engine,
            limit_bytes=self._door.limit_bytes,
            heartbeat_s=settings.server.heartbeat_s,
            error_body=error_body,
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _lifespan(receive, send)
            return
        last: Kept | None = scope.get(LASTING, {}).get(_LAST)
        if last is not None and last.fits(scope, self._door.limit_bytes):
            admitted: Admitted | None = last.admitted
        else:
            admitted = await self._admitted(scope, receive, send)
        if admitted is None:
            return
        exchange = Exchange(scope, receive, send, admitted, self._terms)
        try:
            await self._handler(exchange)
        except ClientGone:
            pass
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not exchange.client_gone or task is None:
                raise
            task.uncancel()
        except ProxyError as error:
            if isinstance(error, UpstreamError):
                # Its text is ours, and names no more than host and port: whoever runs this must tell one cause from another.
                log.warning("upstream_failed", upstream=exchange.route.upstream_name, reason=str(error))
            await exchange.refuse(error)
        except Exception as error:  # noqa: BLE001  the last place that can still answer
            # Texts of unexpected errors may quote content: only the class is named.
            log.error("call_failed", error_type=type(error).__name__, upstream=exchange.route.upstream_name)  # noqa: TRY400
            await exchange.refuse(ProxyError("internal error of the proxy"))
        finally:
            await exchange.close()

    async def _admitted(self, scope: Message, receive: Receive, send: Send) -> Admitted | None:
        """What follows from a head that is new on its connection; None where the call has been answered here."""
        path = scope["raw_path"].decode("latin-1")
        at_home = path == "/" and wants_page(scope["method"], scope["headers"])
        if at_home or path in _CONTROL or path.startswith("/_proxy/"):
            await self._control(scope, receive, send)
            return None
        goal = None
        try:
            goal = claimed(route(path), scope["headers"])
            admitted = self._door.admit(scope, goal)
        except ProxyError as error:
            body = self._terms.error_body(goal or unchecked(path), error.status, error.kind, str(error))
            await send_json(send, error.status, body, _CLOSE if isinstance(error, UpgradeRefused) else ())
            return None
        scope.get(LASTING, {})[_LAST] = kept(scope, admitted)
        return admitted


_CLOSE = ((b"upgrade", b"HTTP/1.1"), (b"connection", b"close"))


def health_pages() -> Starlette:
    """The smallest control plane: `/healthz` and `/readyz`."""

    async def healthy(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Page("/healthz", healthy), Page("/readyz", healthy)])


@asynccontextmanager
async def relay_only(settings: Settings) -> AsyncIterator[App]:
    """An App that relays everything unread."""
    engine = ENGINES[DEFAULT]()
    try:
        yield App(settings, engine)
    finally:
        await engine.aclose()


def run(
    settings: Settings,
    *,
    assemble: Assemble = relay_only,
    announce: Callable[[str, int], None] = lambda _host, _port: None,
) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP; gives the exit code. A second SIGINT no longer waits for calls that run.

    With several workers this returns in each of them, and in their parent when all have ended. `assemble` opens what the
    App needs inside the running loop and closes it after the last call. `announce` is told the address once it listens.
    Raises OSError when the port cannot be had.
    """
    listening = listeners(settings.server.host, settings.server.port, settings.server.workers)
    if len(listening) == 1:
        return _run(settings, assemble, announce, listening[0])
    announce(*listening[0].getsockname()[:2])
    worker = supervise(listening)
    if isinstance(worker, int):
        return worker
    return _run(settings, assemble, lambda _host, _port: None, worker.listener, worker)


def _run(
    settings: Settings,
    assemble: Assemble,
    announce: Callable[[str, int], None],
    listener: socket.socket,
    worker: Worker | None = None,
) -> int:
    with listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, assemble, announce, listener, worker))


async def _serve(
    settings: Settings,
    assemble: Assemble,
    announce: Callable[[str, int], None],
    listener: socket.socket,
    worker: Worker | None,
) -> int:
    async with assemble(settings) as app:
        # Modules, tables and vocabularies live as long as the process: no collection need look at them again.
        gc.freeze()
        gc.set_threshold(_COLLECT_EVERY)
        config = uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            # Its complaints quote request lines, and with them keys; ours are structured.
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,  # type: ignore[arg-type]  # annotated int, used as seconds
        )
        server = _Server(config, app.leave)
        announce(*listener.getsockname()[:2])
        if worker is not None:
            app.join(worker)
            # Orphans would hold the port.
            asyncio.get_running_loop().add_reader(worker.lifeline, server.orphaned, worker.lifeline)
        await server.serve(sockets=[listener])
        # Calls that were cut off by the end of the drain, or are by a second Ctrl-C, are still on their way out.
        if tasks := set(server.server_state.tasks):
            if server.force_exit:
                for task in tasks:
                    task.cancel()
            await asyncio.wait(tasks, timeout=SETTLE_S)
        await settled()
    return 0


class _Server(uvicorn.Server):
    """Ends by returning: uvicorn would raise the signal again, which kills the process before it can say goodbye."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Tell those who would stay that it is time, then as always."""
        self._leave()
        if not self.should_exit:
            asyncio.get_running_loop().call_later(_PATIENCE_S, self._say_why)
        super().handle_exit(sig, frame)

    def _say_why(self) -> None:
        """Whoever has told this process to end shall know why it is still there."""
        if calls := len(self.server_state.tasks):
            log.info("waits_for_calls", calls=calls, most_s=DRAIN_S, note="Ctrl-C (SIGINT) now cuts them off")

    def orphaned(self, lifeline: int) -> None:
        """The parent of this worker is gone."""
        asyncio.get_running_loop().remove_reader(lifeline)
        self.handle_exit(signal.SIGTERM, None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in endings():
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in endings():
                loop.remove_signal_handler(number)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
