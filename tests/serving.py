"""Real servers on loopback, in the test's own event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn


@asynccontextmanager
async def serving(app: Any, *, lifespan: str = "auto") -> AsyncIterator[str]:
    """Serve an ASGI app on a free port; gives its base URL. The port listens before this yields."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan=lifespan,  # type: ignore[arg-type]
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    server = _Server(config)
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
        listener.close()


class _Server(uvicorn.Server):
    """Leaves the process's signal handlers alone: they are pytest's."""

    def capture_signals(self) -> Any:
        return nullcontext()
