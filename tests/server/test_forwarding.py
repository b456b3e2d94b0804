"""Pieces that go on in the step in which they arrive: what the client gets, what is copied, and who waits for whom."""

import asyncio

import pytest

from proxy.server.copying import Copying
from proxy.server.forwarding import forwarded
from tests.server.clients import a_call, a_client, a_proxy
from tests.server.engines.raw import raw_server
from tests.server.test_relay import CHUNKED, Ends, chunk, streaming

pytestmark = pytest.mark.anyio


class Served:
    """What a server offers: notes what is written, and has room for so many pieces."""

    def __init__(self, room=100):
        self.written = []
        self.room = room

    def pass_on(self, body):
        self.written.append(body)
        return len(self.written) < self.room

    async def send(self, message):
        self.written.append(b"(" + message["body"] + b")")


class Answer:
    """Pours and is read by turns; the last piece is only read."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.complete = False

    async def read(self):
        if len(self.pieces) == 1:
            self.complete = True
        return self.pieces.pop(0) if self.pieces else b""

    async def pour(self, into):
        while len(self.pieces) > 1 and into(self.pieces.pop(0)):
            pass


async def test_the_task_sends_what_comes_first_and_what_comes_when_there_was_no_room():
    served, seen = Served(room=3), []
    copying = Copying(seen.append, None)

    last = await forwarded(Answer(*b"a b c d e f".split()), (), None, copying, served.send, served)
    copying.flush()

    assert served.written == [b"(a)", b"b", b"c", b"(d)", b"e"]
    assert last == b"f"
    assert b"".join(seen) == b"abcde"


async def test_without_a_server_that_can_everything_is_sent():
    served = Served()

    last = await forwarded(Answer(b"b", b"c", b"d"), (b"a",), None, None, served.send, None)

    assert (served.written, last) == ([b"(a)", b"(b)", b"(c)"], b"d")


async def test_what_a_transform_keeps_back_is_not_written():
    served = Served()

    def transform(piece):
        return b"" if piece == b"b" else piece.upper()

    last = await forwarded(Answer(b"a", b"b", b"c", b"d"), (), transform, None, served.send, served)

    assert (served.written, last) == ([b"(A)", b"C"], b"d")


async def test_a_transform_that_trips_ends_the_call_and_not_the_connection():
    def transform(piece):
        if piece == b"b":
            raise RuntimeError("tripped")
        return piece

    with pytest.raises(RuntimeError, match="tripped"):
        await forwarded(Answer(b"a", b"b", b"c"), (), transform, None, Served().send, Served())


async def test_a_client_that_reads_nothing_makes_the_upstream_wait_and_loses_nothing():
    sent, piece, count = 0, bytes(range(256)) * 400, 400

    async def talk(server, reader, writer):
        nonlocal sent
        await server.read_request(reader)
        writer.write(CHUNKED + chunk(b"first"))
        await asyncio.sleep(0.05)
        for _ in range(count):
            writer.write(chunk(piece))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    async with raw_server(talk) as server, a_proxy(server.url) as base, a_client(base) as client:
        client.writer.transport.pause_reading()
        await client.send(a_call())
        await asyncio.sleep(0.6)
        # Sockets hold some of it, the proxy hardly any: 40 MB are on their way.
        assert sent < count * 3 / 4
        client.writer.transport.resume_reading()
        _, headers = await client.head()

        assert await client.body(headers) == b"first" + piece * count


async def test_a_client_that_leaves_in_the_middle_takes_the_upstreams_connection_along():
    ends = Ends()
    left = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(CHUNKED)
        while not reader.at_eof():
            writer.write(chunk(b"data: x\n\n"))
            await asyncio.sleep(0.01)
            if writer.transport.is_closing():
                break
        left.set()

    async with raw_server(talk) as server, a_proxy(server.url, handler=ends) as base, a_client(base) as client:
        await client.send(a_call())
        await client.head()
        await client.reader.readexactly(100)
        client.leave()
        end = await ends.only()
        await asyncio.wait_for(left.wait(), 30)

    assert end.outcome == "client_closed"


async def test_an_answer_that_breaks_off_breaks_off_behind_what_came():
    ends = Ends()
    pieces = [b"one", 0.05, b"two", 0.05, b"three", 0.05]
    async with (
        raw_server(streaming(*pieces, cut=True)) as server,
        a_proxy(server.url, handler=ends) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        await client.head()

        assert await client.rest() == chunk(b"one") + chunk(b"two") + chunk(b"three")
        assert (await ends.only()).outcome == "truncated"
