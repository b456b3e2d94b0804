"""ASGI apps as real servers on loopback, inside the running event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an app on a free port of 127.0.0.1; gives its base URL. It listens before this yields."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        server = _Server(
            uvicorn.Config(
                app,
                ws="none",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=2,
            )
        )
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if task.done():
                    task.result()
                    raise RuntimeError("the app did not start")
                await asyncio.sleep(0.002)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class _Server(uvicorn.Server):
    """Leaves the process's signal handlers alone: they are the caller's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
