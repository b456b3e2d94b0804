import asyncio
import time
import weakref

import pytest

from proxy.errors import UpstreamBroken, UpstreamTimeout
from proxy.server.engines.base import AGE_S, Way
from proxy.server.engines.lean_engine import LeanEngine
from tests.collecting import gone, no_collection
from tests.server.engines.contract import a_request, body_of, in_pieces
from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture
async def engine():
    engine = LeanEngine()
    yield engine
    await engine.aclose()


async def test_answer_that_nobody_reads_makes_the_upstream_wait(engine):
    sent = 0

    async def talk(server, reader, writer):
        nonlocal sent
        await server.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 64000000\r\n\r\n")
        for _ in range(64):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
            sent += 1

    async with raw_server(talk) as server:
        # The wait for a reader is longer than the silence that is allowed.
        answer = await engine.send(a_request(server.url, timeout_s=0.3))
        await asyncio.sleep(0.6)
        assert sent < 20
        total = 0
        while chunk := await answer.read():
            total += len(chunk)

    assert (total, answer.complete) == (64_000_000, True)


async def test_answer_that_is_all_here_is_taken_at_once_and_its_connection_is_free(engine):
    async with raw_server(answering(OK)) as server:
        for _ in range(2):
            answer = await engine.send(a_request(server.url))
            while not answer.ready:
                await asyncio.sleep(0)
            assert (answer.rest(), answer.complete, answer.error) == (b"ok", True, None)
            assert (answer.rest(), await answer.read()) == (None, b"")

    assert server.connections == 1


async def test_answer_that_is_not_all_here_is_to_be_read(engine):
    go_on = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
        await go_on.wait()
        writer.write(b"cd")

    async with raw_server(talk) as server:
        answer = await engine.send(a_request(server.url))
        assert answer.rest() is None
        assert await answer.read() == b"ab"
        assert answer.rest() is None
        go_on.set()
        while not answer.ready:
            await asyncio.sleep(0.001)
        assert (answer.rest(), answer.complete) == (b"cd", True)


async def test_answer_that_broke_off_has_no_rest(engine):
    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        await writer.drain()

    async with raw_server(talk) as server:
        answer = await engine.send(a_request(server.url))
        while not answer.ready:
            await asyncio.sleep(0.001)
        assert answer.rest() is None
        assert (await answer.read(), answer.complete) == (b"", False)


async def test_connection_that_waits_for_its_next_call_may_be_silent(engine):
    async with raw_server(answering(OK)) as server:
        assert await body_of(await engine.send(a_request(server.url, timeout_s=0.2))) == b"ok"
        await asyncio.sleep(0.5)
        assert await body_of(await engine.send(a_request(server.url, timeout_s=0.2))) == b"ok"

    assert server.connections == 1


async def test_slow_upload_is_not_the_upstreams_silence(engine):
    async def slowly():
        for _ in range(4):
            await asyncio.sleep(0.4)
            yield b"x"

    async with raw_server(answering(OK)) as server:
        answer = await engine.send(a_request(server.url, body=slowly(), timeout_s=1.0))
        assert await body_of(answer) == b"ok"

        with pytest.raises(UpstreamTimeout):
            async with raw_server(lambda server, reader, writer: server.wait_closed(reader)) as silent:
                await engine.send(a_request(silent.url, body=in_pieces(b"x"), timeout_s=0.2))


async def test_upstream_that_takes_the_body_slowly_is_not_silent(engine):
    async def talk(server, reader, writer):
        await server.read_head(reader)
        for _ in range(6):
            await asyncio.sleep(0.4)
            await reader.readexactly(5_000_000)
        writer.write(OK)

    async with raw_server(talk) as server:
        answer = await engine.send(a_request(server.url, body=b"x" * 30_000_000, timeout_s=1.0))

        assert await body_of(answer) == b"ok"


async def test_upstream_that_takes_no_more_of_the_body_is_silent(engine):
    async def talk(server, reader, writer):
        await server.read_head(reader)
        await asyncio.sleep(60)

    async with raw_server(talk) as server:
        with pytest.raises(UpstreamTimeout):
            await asyncio.wait_for(engine.send(a_request(server.url, body=b"x" * 30_000_000, timeout_s=0.2)), 30)


async def test_answer_before_the_end_of_the_upload_counts_and_ends_it(engine):
    async def talk(server, reader, writer):
        await server.read_head(reader)
        writer.write(OK.replace(b"200 OK", b"413 Too large"))
        await server.wait_closed(reader)

    async with raw_server(talk) as server:
        answer = await engine.send(a_request(server.url, body=b"x" * 50_000_000))

        assert (answer.status, await body_of(answer), answer.complete) == (413, b"ok", True)
        await asyncio.wait_for(server.closed.wait(), 30)


async def test_answer_says_whether_something_of_it_is_here(engine):
    gate = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        await gate.wait()
        writer.write(b"ab")

    async with raw_server(talk) as server:
        answer = await engine.send(a_request(server.url))
        assert not answer.ready
        gate.set()
        assert await answer.read() == b"ab"
        # The rest never comes.
        assert await answer.read() == b""
        assert (answer.ready, answer.complete) == (True, False)


async def test_last_bytes_say_that_they_are_the_last_and_free_the_connection(engine):
    async with raw_server(answering(OK)) as server:
        for _ in range(2):
            answer = await engine.send(a_request(server.url))
            assert (await answer.read(), answer.complete) == (b"ok", True)
            assert answer.ready
            assert await answer.read() == b""

        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"and more",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
)
async def test_connection_is_not_kept_where_that_would_be_wrong(engine, answer):
    async with raw_server(answering(answer)) as server:
        for _ in range(2):
            assert await body_of(await engine.send(a_request(server.url))) == b"ok"

        assert server.connections == 2


async def test_bytes_that_nobody_asked_for_close_a_kept_connection(engine):
    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(OK)
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await server.wait_closed(reader)

    async with raw_server(talk) as server:
        assert await body_of(await engine.send(a_request(server.url))) == b"ok"
        await asyncio.wait_for(server.closed.wait(), 30)
        assert await body_of(await engine.send(a_request(server.url))) == b"ok"

        assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "protocol|101"),
        (b"HTTP/1.1 799 What\r\ncontent-length: 0\r\n\r\n", "799"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 3_000_000, "too long"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", "not HTTP"),
    ],
)
async def test_answer_that_cannot_be_passed_on_is_broken(engine, answer, why):
    async with raw_server(answering(answer)) as server:
        with pytest.raises(UpstreamBroken, match=why):
            await engine.send(a_request(server.url, timeout_s=2))


async def test_line_ends_without_cr_are_understood(engine):
    async with raw_server(answering(OK.replace(b"\r\n", b"\n"))) as server:
        assert await body_of(await engine.send(a_request(server.url))) == b"ok"


async def test_broken_chunk_within_the_body_ends_it_incomplete(engine):
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\nnonsense\r\n"
    async with raw_server(answering(answer)) as server:
        got = await engine.send(a_request(server.url))

        assert await body_of(got) == b"hi"
        assert not got.complete


async def test_kept_connections_grow_old(engine, monkeypatch):
    monkeypatch.setattr("proxy.server.engines.lean_engine.KEEP_ALIVE_S", 0.1)
    async with raw_server(answering(OK)) as server:
        started = time.monotonic()
        for pause_s in (0.0, 0.0, 0.2):
            await asyncio.sleep(pause_s)
            assert await body_of(await engine.send(a_request(server.url))) == b"ok"

        assert (server.connections, time.monotonic() - started < 2) == (2, True)


async def test_a_machine_that_slept_sends_nothing_on_what_the_others_have_forgotten(engine, monkeypatch):
    """The loop's own clock stood still meanwhile."""
    asleep_s = 0.0
    for module in ("lean_engine", "connection"):
        monkeypatch.setattr(f"proxy.server.engines.{module}.AGE_S", lambda: AGE_S() + asleep_s)
    async with raw_server(answering(OK)) as server:
        await body_of(await engine.send(a_request(server.url)))
        await body_of(await engine.send(a_request(server.url)))
        asleep_s = 3600.0
        assert await body_of(await engine.send(a_request(server.url))) == b"ok"

        assert server.connections == 2


async def test_url_may_have_a_port_of_its_scheme_and_a_name_in_any_script(engine):
    from proxy.server.engines.lean_engine import _taken_apart

    def goal(url):
        return _taken_apart(Way(url_base=url, timeout_s=1.0))

    assert goal("https://h.example/base").port == 443
    assert goal("http://[::1]:8000").host == "::1"
    assert goal("http://[::1]:8000").host_header == b"[::1]:8000"
    assert goal("http://bücher.example:81/x").host_header == b"xn--bcher-kva.example:81"


async def test_a_connection_that_broke_off_goes_without_a_collection(engine):
    with no_collection():
        async with raw_server(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")) as server:
            answer = await engine.send(a_request(server.url))
            known = weakref.ref(answer._connection)
            assert await body_of(answer) == b"half"

            await gone(known)
    assert not answer.complete


@pytest.mark.parametrize(
    "behind",
    [
        b"HTTP/1.1 500 X\r\nx-second: 1\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 500 X\r\ncontent-length: 1000\r\n\r\n",
        b"HTTP/1.1 500",
    ],
)
@pytest.mark.parametrize("first", [OK, b"HTTP/1.1 204 No Content\r\n\r\n"])
async def test_another_answer_in_the_same_packet_spoils_neither_this_one_nor_the_next_call(engine, first, behind):
    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(first + behind)
        while await server.read_request(reader):
            writer.write(first)

    async with raw_server(talk) as server:
        answers = []
        for _ in range(2):
            answer = await engine.send(a_request(server.url))
            answers.append((answer.status, [name for name, _ in answer.headers], await body_of(answer)))

    assert answers[0] == answers[1]
    assert answers[0][0] < 300
    assert b"x-second" not in answers[0][1]


async def test_what_follows_a_chunked_body_is_no_header_of_it(engine):
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with raw_server(answering(head + b"2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n")) as server:
        answer = await engine.send(a_request(server.url))

        assert await body_of(answer) == b"ok"
    assert answer.headers == [(b"transfer-encoding", b"chunked")]
