"""An upstream that speaks bytes, so that a test can break every rule of HTTP."""

import asyncio
from contextlib import asynccontextmanager, suppress


class RawServer:
    """What came, connection by connection."""

    def __init__(self):
        self.connections = 0
        self.heads = []
        """Every request head, as bytes."""
        self.asked = asyncio.Event()
        """A head has come."""
        self.closed = asyncio.Event()
        """A peer has closed its side."""
        self.url = ""

    async def read_head(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        self.asked.set()
        return head

    async def read_request(self, reader):
        """Head, and body by its framing."""
        head = await self.read_head(reader)
        lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        if b"content-length" in lines:
            return head, await reader.readexactly(int(lines[b"content-length"]))
        body = b""
        if b"transfer-encoding" in lines:
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        return head, body

    async def wait_closed(self, reader):
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
        self.closed.set()


@asynccontextmanager
async def raw_server(talk, *, tls=None):
    """Serve each connection with `talk(server, reader, writer)`, on loopback."""
    server = RawServer()
    tasks = set()

    async def serve(reader, writer):
        server.connections += 1
        tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(server, reader, writer)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20, ssl=tls)
    scheme, host = ("https", "localhost") if tls else ("http", "127.0.0.1")
    server.url = f"{scheme}://{host}:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(answer, *, then_close=False):
    """A talk that reads whole requests and gives the same bytes to each."""

    async def talk(server, reader, writer):
        while True:
            await server.read_request(reader)
            writer.write(answer)
            await writer.drain()
            if then_close:
                return

    return talk
