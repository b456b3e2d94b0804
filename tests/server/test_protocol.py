import asyncio

import pytest
import uvicorn

from proxy.server.protocol import LEAVING, Protocol
from tests.server.clients import a_call

pytestmark = pytest.mark.anyio


class Transport:
    """Notes what is written."""

    def __init__(self):
        self.written = []
        self.closing = False

    def write(self, data):
        self.written.append(data)

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True

    def get_extra_info(self, name, default=None):
        return default

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def connected(app):
    protocol = Protocol(uvicorn.Config(app, log_config=None, ws="none"), uvicorn.server.ServerState(), {})
    transport = Transport()
    protocol.connection_made(transport)
    return protocol, transport


async def start(send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})


async def chunk(send, body, *, more=True):
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def test_head_and_first_chunk_leave_together():
    async def app(scope, receive, send):
        await start(send)
        await chunk(send, b"ab")
        await chunk(send, b"cd", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.01)

    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab", b"cd"]


async def test_head_does_not_wait_for_a_chunk_that_comes_later():
    gate = asyncio.Event()

    async def app(scope, receive, send):
        await start(send)
        await gate.wait()
        await chunk(send, b"abcd", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.01)
    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"]
    gate.set()
    await asyncio.sleep(0.01)

    assert transport.written[1:] == [b"abcd"]


async def test_answer_that_breaks_off_after_its_head_still_shows_the_head():
    async def app(scope, receive, send):
        await start(send)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.01)

    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"]
    assert transport.closing


async def test_head_for_a_client_that_has_left_is_dropped():
    async def app(scope, receive, send):
        await start(send)
        transport.closing = True
        await asyncio.sleep(1)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.02)

    assert transport.written == []


async def test_interim_answer_leaves_at_once_and_a_chunk_may_look_like_a_head():
    async def app(scope, receive, send):
        await receive()
        await start(send)
        await chunk(send, b"HTTP")
        await chunk(send, b"", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(headers=("expect: 100-continue",)))
    await asyncio.sleep(0.01)

    assert transport.written[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert transport.written[1].endswith(b"\r\n\r\nHTTP")


def received(total, piece):
    """What an application receives of a body that comes in pieces."""
    messages = []

    async def app(scope, receive, send):
        while True:
            messages.append(await receive())
            if not messages[-1].get("more_body"):
                break
        await start(send)
        await chunk(send, b"abcd", more=False)

    async def play():
        protocol, transport = connected(app)
        sent = bytes(range(256)) * (total // 256)
        head = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % len(sent)
        protocol.data_received(head)
        for at in range(0, len(sent), piece):
            protocol.data_received(sent[at : at + piece])
            if at % (4 * piece) == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        assert b"".join(message["body"] for message in messages) == sent
        assert transport.written
        return [len(message["body"]) for message in messages]

    return play()


async def test_a_large_body_wakes_the_application_once():
    assert await received(512 * 1024, 10_000) == [512 * 1024]


async def test_a_very_large_body_comes_in_large_pieces():
    sizes = await received(3 * 1024 * 1024 + 512, 64 * 1024)

    assert len(sizes) <= 4
    assert min(sizes[:-1]) >= 1024 * 1024


async def test_a_body_of_unknown_length_is_passed_on_as_it_comes():
    seen = []

    async def app(scope, receive, send):
        seen.append(await receive())
        seen.append(await receive())

    protocol, _ = connected(app)
    protocol.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await asyncio.sleep(0.01)
    assert [message["body"] for message in seen] == [b"hello"]
    protocol.data_received(b"0\r\n\r\n")
    await asyncio.sleep(0.01)
    assert [message["more_body"] for message in seen] == [True, False]


async def test_leaving_client_is_told_to_whom_watches_once():
    left, watches = [], []

    async def app(scope, receive, send):
        watches.append(scope["extensions"][LEAVING])
        watches[0](lambda: left.append(True))
        await asyncio.Event().wait()

    protocol, _ = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.01)
    assert left == []
    protocol.connection_lost(None)
    protocol.connection_lost(None)

    assert left == [True]


async def test_client_of_a_finished_call_may_leave_unheard():
    left = []

    async def app(scope, receive, send):
        watch = scope["extensions"][LEAVING]
        watch(lambda: left.append(True))
        watch(None)

    protocol, _ = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.01)
    protocol.connection_lost(None)

    assert left == []


async def test_watched_connection_is_read_again():
    async def app(scope, receive, send):
        scope["extensions"][LEAVING](lambda: None)

    protocol, _ = connected(app)
    protocol.flow.pause_reading()
    protocol.data_received(a_call(None, method="GET"))
    await asyncio.sleep(0.01)

    assert not protocol.flow.read_paused


async def until(true):
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def answered(scope, receive, send):
    await start(send)
    await chunk(send, b"abcd", more=False)


async def test_a_server_that_ends_answers_the_call_that_was_on_its_way_and_says_that_it_is_the_last():
    protocol, transport = connected(answered)
    protocol.data_received(a_call(None, method="GET"))
    await until(lambda: transport.written)
    protocol.shutdown()
    assert not transport.closing
    protocol.data_received(a_call(None, method="GET"))
    await until(lambda: transport.closing)
    first, last = transport.written

    assert b"connection: close" not in first
    assert b"connection: close" in last
    assert last.endswith(b"abcd")


@pytest.mark.parametrize("calls", [0, 1])
async def test_a_connection_without_a_call_is_closed_some_time_after_the_end_began(calls):
    protocol, transport = connected(answered)
    if calls:
        protocol.data_received(a_call(None, method="GET"))
        await until(lambda: transport.written)
    protocol.shutdown()
    assert not transport.closing
    await until(lambda: transport.closing)

    assert len(transport.written) == calls


async def test_an_answer_that_had_begun_when_the_end_did_is_not_cut_and_one_that_had_not_says_that_it_is_the_last():
    gate, told = asyncio.Event(), []

    async def app(scope, receive, send):
        if scope["path"] == "/begun":
            await start(send)
        told.append(scope["path"])
        await gate.wait()
        if scope["path"] != "/begun":
            await start(send)
        await chunk(send, b"abcd", more=False)

    (begun, its_transport), (other, transport) = connected(app), connected(app)
    begun.data_received(b"GET /begun HTTP/1.1\r\nhost: h\r\n\r\n")
    other.data_received(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    await until(lambda: len(told) == 2)
    begun.shutdown()
    other.shutdown()
    gate.set()
    await until(lambda: its_transport.closing and transport.closing)

    assert b"".join(its_transport.written).endswith(b"abcd")
    assert b"connection: close" not in b"".join(its_transport.written)
    assert b"connection: close" in b"".join(transport.written)
