import asyncio
import gc
import weakref

import pytest
import uvicorn

from proxy.server.protocol import Protocol
from tests.server.clients import a_call, a_client
from tests.server.wires import Transport, answered, answering, chunk, connected, start
from tests.serving import serving

pytestmark = pytest.mark.anyio

GET = a_call(None, method="GET", path="/a")
CHUNKED = b"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"


async def turns():
    """Some turns of the loop, in which no clock has a part."""
    for _ in range(10):
        await asyncio.sleep(0)


def scope_of(raw):
    """What an application is told of a request."""
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope)

    async def play():
        protocol, _ = connected(app)
        protocol.data_received(raw)
        await turns()
        return scopes[0]

    return play()


# Requests


async def test_application_is_told_what_the_client_said():
    scope = await scope_of(b"POST /a%20b/c?d=%20e HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 0\r\n\r\n")

    assert (scope["type"], scope["method"], scope["http_version"]) == ("http", "POST", "1.1")
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a b/c", b"/a%20b/c", b"d=%20e")
    assert scope["headers"] == [(b"host", b"h"), (b"x-a", b"1"), (b"x-a", b"2"), (b"content-length", b"0")]


async def test_blanks_around_a_value_are_no_part_of_it():
    scope = await scope_of(b"GET / HTTP/1.1\r\nhost:\th \r\nx-a:  b  c\t \r\nx-b: \r\n\r\n")

    assert scope["headers"] == [(b"host", b"h"), (b"x-a", b"b  c"), (b"x-b", b"")]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://other.example/x?y", b"/x", b"y"),
        (b"http://other.example", b"/", b""),
        (b"//x/y", b"//x/y", b""),
        (b"/x?", b"/x", b""),
        (b"/x#y?z", b"/x", b""),
        (b"*", b"*", b""),
    ],
)
async def test_target_may_have_any_form(target, path, query):
    scope = await scope_of(b"OPTIONS %b HTTP/1.1\r\nhost: h\r\n\r\n" % target)

    assert (scope["raw_path"], scope["query_string"]) == (path, query)


async def test_what_follows_a_chunked_body_is_no_header_of_the_request():
    scope = await scope_of(CHUNKED + b"2\r\nhi\r\n0\r\ncontent-length: 7\r\nx-api-key: other\r\n\r\n")

    assert scope["headers"] == [(b"host", b"h"), (b"transfer-encoding", b"chunked")]


async def test_request_may_come_byte_by_byte():
    protocol, transport = connected(answering)
    for byte in a_call(b"hello", path="/a"):
        protocol.data_received(bytes([byte]))
    await turns()

    assert transport.sent == answered(b"/a hello")


@pytest.mark.parametrize("first", [b"", b"hello"])
async def test_wish_for_another_protocol_loses_nothing(first):
    """What follows such a head is to the parser no longer HTTP, the body included."""
    wish = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AA")
    protocol, transport = connected(answering)
    protocol.data_received(a_call(first, path="/a", headers=wish) + a_call(b"more", path="/b"))
    await turns()

    assert transport.sent == answered(b"/a " + first, b"/b more")


async def test_wish_for_another_protocol_may_have_a_body_in_pieces():
    chunked = b"transfer-encoding: chunked\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n2\r\nhe\r\n"
    protocol, transport = connected(answering)
    protocol.data_received(b"POST /a HTTP/1.1\r\nhost: h\r\n" + chunked)
    await turns()
    protocol.data_received(b"3\r\nllo\r\n0\r\n\r\n")
    await turns()

    assert transport.sent == answered(b"/a hello")


# Several on one connection


async def test_requests_behind_one_another_are_answered_in_their_order():
    protocol, transport = connected(answering)
    protocol.data_received(b"".join(a_call(b"%d" % number, path=f"/{number}") for number in range(5)))
    await turns()

    assert transport.sent == answered(*(b"/%d %d" % (number, number) for number in range(5)))


async def test_client_that_does_not_wait_for_its_answers_is_not_read_on():
    gate = asyncio.Event()

    async def app(scope, receive, send):
        await gate.wait()
        await answering(scope, receive, send)

    protocol, transport = connected(app)
    protocol.data_received(GET)
    assert transport.reading
    protocol.data_received(GET)
    assert not transport.reading
    gate.set()
    await turns()

    assert transport.reading
    assert transport.sent == answered(b"/a ", b"/a ")


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"])
async def test_connection_that_the_client_does_not_keep_ends(raw):
    protocol, transport = connected(answering)
    protocol.data_received(raw)
    await turns()

    assert b"\r\nconnection: close\r\n" in transport.sent
    assert transport.closing


async def test_each_request_of_a_connection_has_its_own_target():
    scopes = []

    async def app(scope, receive, send):
        scopes.append((scope["path"], scope["raw_path"], scope["query_string"]))
        await answering(scope, receive, send)

    protocol, _ = connected(app)
    targets = ("/a%20b?c", "/a%20b?c", "/a%20b", "/a%20b?d", "/", "/", "/a%20b?c")
    for target in targets:
        protocol.data_received(a_call(None, method="GET", path=target))
        await turns()

    assert scopes == [
        ("/a b", b"/a%20b", b"c"),
        ("/a b", b"/a%20b", b"c"),
        ("/a b", b"/a%20b", b""),
        ("/a b", b"/a%20b", b"d"),
        ("/", b"/", b""),
        ("/", b"/", b""),
        ("/a b", b"/a%20b", b"c"),
    ]


async def test_silent_connection_ends_and_one_with_a_call_on_it_does_not():
    async with serving(answering, http=Protocol, timeout_keep_alive=1) as base, a_client(base) as silent:
        await silent.send(GET)
        await silent.head()
        # Its end, behind the rest of the answer.
        assert await silent.rest() == b"/a "
    slow = asyncio.Event()

    async def app(scope, receive, send):
        await asyncio.sleep(2)
        slow.set()
        await answering(scope, receive, send)

    async with serving(app, http=Protocol, timeout_keep_alive=1) as base, a_client(base) as client:
        await client.send(GET)
        assert (await client.head())[0] == 200
        assert slow.is_set()
        # Behind the call the time is what it was in front of it.
        assert await client.rest() == b"/a "


async def test_who_still_sends_can_read_the_answer_and_then_sees_its_end():
    async def app(scope, receive, send):
        await start(send, (b"content-length", b"2"), status=413)
        await chunk(send, b"no", more=False)

    large = b"x" * 20_000_000
    async with serving(app, http=Protocol) as base, a_client(base) as client:
        await client.send(a_call(large, headers=["connection: close"]))
        status, _ = await client.head()

        assert (status, await client.rest()) == (413, b"no")


async def test_who_sends_for_ever_is_not_listened_to_for_ever(monkeypatch):
    monkeypatch.setattr("proxy.server.protocol._LINGER_S", 0.01)

    async def app(scope, receive, send):
        await start(send, (b"content-length", b"2"), status=413)
        await chunk(send, b"no", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(b"x" * 100, headers=["connection: close"])[:-50])
    await turns()
    assert not transport.closing
    assert transport.ended
    await asyncio.sleep(0.1)

    assert transport.closing


# What is no HTTP


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"CONNECT h:443 HTTP/1.1\r\nhost: h\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: h\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 2_000_000,
        CHUNKED + b"2\r\nhi\r\n0\r\nx: " + b"y" * 2_000_000,
        CHUNKED + b"2\r\nhi\r\n0\r\n" + b"x: y\r\n" * 300_000,
        CHUNKED + b"2;" + b"y" * 2_000_000,
    ],
)
async def test_what_is_no_http_is_refused_and_ends_the_connection(raw):
    protocol, transport = connected(answering)
    for at in range(0, len(raw), 65536):
        protocol.data_received(raw[at : at + 65536])
    protocol.data_received(GET)
    await turns()

    assert transport.sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert transport.sent.count(b"HTTP/1.1") == 1
    assert transport.closing


@pytest.mark.parametrize("waiting", [0, 1])
@pytest.mark.parametrize("bad", [b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"])
async def test_calls_in_front_of_it_are_answered(waiting, bad):
    """A 400 would be taken for the answer to the first of them."""
    protocol, transport = connected(answering)
    protocol.data_received(GET * (1 + waiting) + bad)
    await turns()

    assert transport.sent.count(b"HTTP/1.1 200 OK\r\n") == 1 + waiting
    assert b"400" not in transport.sent
    assert transport.sent.count(b"connection: close") == 1
    assert transport.closing


async def test_body_that_breaks_while_its_answer_is_under_way_ends_the_connection():
    async def app(scope, receive, send):
        await start(send)
        await asyncio.sleep(60)

    protocol, transport = connected(app)
    protocol.data_received(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
    await turns()
    protocol.data_received(b"xyz\r\n")
    protocol.connection_lost(None)

    assert b"400" not in transport.sent
    assert transport.closing


# The server


async def until(true):
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_server_that_ends_answers_the_call_that_was_on_its_way_and_says_that_it_is_the_last():
    protocol, transport = connected(answering)
    protocol.data_received(GET)
    await until(lambda: transport.written)
    protocol.shutdown()
    assert not transport.closing
    protocol.data_received(GET)
    await until(lambda: transport.closing)
    first, last = transport.written

    assert b"connection: close" not in first
    assert b"connection: close" in last
    assert last.endswith(b"/a ")


@pytest.mark.parametrize("calls", [0, 1])
async def test_a_connection_without_a_call_is_closed_some_time_after_the_end_began(calls):
    protocol, transport = connected(answering)
    if calls:
        protocol.data_received(GET)
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


async def test_server_is_told_of_connections_tasks_and_calls():
    state = uvicorn.server.ServerState()
    protocol = Protocol(uvicorn.Config(answering, log_config=None, ws="none"), state, {})
    protocol.connection_made(Transport())
    assert state.connections == {protocol}
    protocol.data_received(GET)
    assert len(state.tasks) == 1
    await turns()
    assert (state.total_requests, state.tasks) == (1, set())
    protocol.connection_lost(None)

    assert state.connections == set()


async def test_connection_that_has_ended_waits_for_no_collection():
    gc.disable()
    try:
        protocol, _ = connected(answering)
        protocol.data_received(GET)
        await turns()
        protocol.connection_lost(None)
        known = weakref.ref(protocol)
        del protocol
        await turns()

        assert known() is None
    finally:
        gc.enable()


async def test_client_that_takes_little_makes_the_answer_wait():
    async def app(scope, receive, send):
        await start(send)
        await chunk(send, b"ab")
        await chunk(send, b"cd", more=False)

    protocol, transport = connected(app)
    protocol.pause_writing()
    protocol.data_received(GET)
    await turns()
    assert transport.sent == b""
    protocol.resume_writing()
    await turns()

    assert transport.sent.endswith(b"abcd")
