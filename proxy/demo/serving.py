"""ASGI apps as real servers on loopback, inside the running event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def serving(app: Any, http: Any = "auto", timeout_keep_alive: int = 120) -> AsyncIterator[str]:
    """Serve an app on a free port of 127.0.0.1; gives its base URL. It listens before this yields.

    `http`: uvicorn's protocol class. `timeout_keep_alive`: seconds after which it ends an idle connection; uvicorn's own 5
    are so few that a client on a busy machine sends its next call into the end.
    """
    # With its protocol named, since only then asyncio switches Nagle's algorithm off: it held answers back for 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        server = _Server(
            uvicorn.Config(
                app,
                http=http,
                ws="none",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=2,
                timeout_keep_alive=timeout_keep_alive,
            )
        )
        task = asyncio.ensure_future(_serve(server, listener))
        try:
            while not server.started and not task.done():  # noqa: ASYNC110  uvicorn has no event for it
                await asyncio.sleep(0.002)
            if not task.done():
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        await server.serve(sockets=[listener])
    except SystemExit as left:
        # uvicorn ends the process when an app fails to start; here that is an error like any other.
        raise RuntimeError("the app did not start") from left


class _Server(uvicorn.Server):
    """Leaves the process's signal handlers alone: they are the caller's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
