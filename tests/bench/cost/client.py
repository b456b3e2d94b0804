"""A lean HTTP client that measures: when the first byte of an answer came, when the last, how late each piece was."""

import asyncio
import time


class Caller(asyncio.Protocol):
    """One kept connection, one call at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = None
        self._done: asyncio.Future[None] | None = None
        self._started = 0
        self._head = b""
        self._in_head = True
        self._missing: int | None = None
        self._tail = b""
        self.first_ns = 0
        """From the last call's writing to its answer's first byte."""
        self.late_ns: list[int] | None = None
        """Where a list is put here: the age of each piece of text on arrival."""

    def connection_made(self, transport) -> None:
        self._transport = transport

    def connection_lost(self, exc) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError("the connection ended before the answer"))

    def call(self, request: bytes) -> asyncio.Future[None]:
        """Send a request; done when the answer is whole. An answer that is not 200 raises."""
        self._done = self._loop.create_future()
        self._head, self._in_head, self._missing, self._tail, self.first_ns = b"", True, None, b"", 0
        self._started = time.monotonic_ns()
        self._transport.write(request)
        return self._done

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self.first_ns:
            self.first_ns = now - self._started
        if self.late_ns is not None:
            at = data.find(b'"@')
            while at >= 0 and len(data) >= at + 22:
                self.late_ns.append(now - int(data[at + 2 : at + 22]))
                at = data.find(b'"@', at + 22)
        if self._in_head:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data = self._head[:end].lower(), self._head[end + 4 :]
            if b" 200 " not in head[:16]:
                self._done.set_exception(AssertionError(self._head[:400].decode("latin-1")))
                return
            self._in_head = False
            at = head.find(b"\r\ncontent-length:")
            self._missing = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else None
        if self._missing is None:
            self._tail = (self._tail + data)[-5:]
            whole = self._tail == b"0\r\n\r\n"
        else:
            self._missing -= len(data)
            whole = self._missing <= 0
        if whole and not self._done.done():
            self._done.set_result(None)


async def connect(port: int) -> Caller:
    """A fresh connection to a loopback port."""
    _, caller = await asyncio.get_running_loop().create_connection(Caller, "127.0.0.1", port)
    return caller


def request(path: str, body: bytes, extra: bytes = b"") -> bytes:
    """A request's bytes. `extra`: whole header lines."""
    return (
        b"POST %b HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer sk-bench-0123456789\r\nuser-agent: bench/1\r\n"
        b"accept: application/json\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
    ) % (path.encode(), extra, len(body), body)
