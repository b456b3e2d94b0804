import asyncio
import gzip

import pytest
from structlog.testing import capture_logs

from proxy.errors import BodyTooLarge, UnsupportedEncoding
from proxy.server.relay import End, relay
from tests.server.clients import a_call, a_client, a_proxy
from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def streaming(*pieces, cut=False, head=CHUNKED):
    """Pieces, the numbers among them are pauses in seconds."""

    async def talk(server, reader, writer):
        while True:
            await server.read_request(reader)
            writer.write(head)
            for piece in pieces:
                if isinstance(piece, bytes):
                    writer.write(chunk(piece))
                    await writer.drain()
                else:
                    await asyncio.sleep(piece)
            if cut:
                return
            writer.write(b"0\r\n\r\n")

    return talk


async def silent(server, reader, writer):
    await server.read_request(reader)
    await server.wait_closed(reader)


class Ends:
    """A handler that notes how calls end."""

    def __init__(self, handler=relay):
        self.handler = handler
        self.seen = []
        self.came = asyncio.Event()

    async def __call__(self, exchange):
        exchange.on_end = self.note
        await self.handler(exchange)

    def note(self, end):
        self.seen.append(end)
        self.came.set()

    async def only(self):
        await asyncio.wait_for(self.came.wait(), 30)
        assert len(self.seen) == 1
        return self.seen[0]


# Requests


async def test_unread_body_streams_through_as_it_arrives():
    seen = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_head(reader)
        assert await reader.readline() == b"3\r\n"
        assert await reader.readexactly(5) == b"abc\r\n"
        seen.set()
        assert await reader.readexactly(13) == b"3\r\ndef\r\n0\r\n\r\n"
        writer.write(OK)

    async with raw_server(talk) as server, a_proxy(server.url) as base, a_client(base) as client:
        await client.send(b"POST /v1/files HTTP/1.1\r\nhost: p\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await asyncio.wait_for(seen.wait(), 30)
        await client.send(b"3\r\ndef\r\n0\r\n\r\n")
        status, headers = await client.head()

        assert (status, await client.body(headers)) == (200, b"ok")


async def test_large_body_of_known_length_keeps_its_length():
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        await client.send(a_call(b"x" * 1_000_000, path="/v1/files"))
        status, _ = await client.head()

    assert status == 200
    assert b"content-length: 1000000\r\n" in server.heads[0]


async def test_slow_upstream_slows_the_client_down():
    """Neither side's body piles up here."""
    gate = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_head(reader)
        await gate.wait()
        await reader.readexactly(40_000_000)
        writer.write(OK)

    async with raw_server(talk) as server, a_proxy(server.url) as base, a_client(base) as client:
        sending = asyncio.ensure_future(client.send(a_call(b"x" * 40_000_000, path="/v1/files")))
        await asyncio.sleep(0.4)
        assert not sending.done()
        gate.set()
        await asyncio.wait_for(sending, 30)

        assert (await client.head())[0] == 200


async def test_client_waiting_for_continue_is_told_and_the_upstream_is_not():
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        await client.send(b"POST /v1/x HTTP/1.1\r\nhost: p\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        interim = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 30)
        await client.send(b"{}")

        assert interim.startswith(b"HTTP/1.1 100 ")
        assert (await client.head())[0] == 200
    assert b"expect" not in server.heads[0].lower()


@pytest.mark.parametrize("framing", ["content-length: 3145728", "transfer-encoding: chunked"])
@pytest.mark.parametrize("path", ["/v1/files", "/v1/messages"])
async def test_body_over_the_limit_is_refused_in_the_clients_format(framing, path):
    body = b"x" * 3 * 1024 * 1024
    wire = body if "length" in framing else chunk(body) + b"0\r\n\r\n"

    async def talk(server, reader, writer):
        await server.read_head(reader)
        await server.wait_closed(reader)

    async with (
        raw_server(talk) as server,
        a_proxy(server.url, server={"max_body_mb": 1}) as base,
        a_client(base) as client,
    ):
        await client.send(f"POST {path} HTTP/1.1\r\nhost: p\r\n{framing}\r\n\r\n".encode() + wire)
        status, headers = await client.head()
        text = await client.body(headers)
        if "length" in framing:
            assert server.heads == []
        else:
            await asyncio.wait_for(server.closed.wait(), 30)

        assert (status, dict(headers)["content-type"]) == (413, "application/json")
        assert b"(server.max_body_mb)" in text
        assert text.startswith(b'{"type":"error"' if path == "/v1/messages" else b'{"error"')
        # The connection is still good.
        await client.send(a_call(path="/v1/..%2f"))
        assert (await client.head())[0] == 400


async def test_handler_reads_a_body_that_came_in_pieces():
    bodies = []

    async def reading(exchange):
        bodies.append(await exchange.read_body())
        await exchange.respond(await exchange.send_upstream(bodies[0]))

    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, handler=reading) as base,
        a_client(base) as client,
    ):
        await client.send(a_call(b"x" * 300_000)[:-100_000])
        await asyncio.sleep(0.05)
        await client.send(b"x" * 100_000)

        assert (await client.head())[0] == 200
    assert bodies == [b"x" * 300_000]


async def test_handler_sees_through_encodings_and_may_send_what_came_or_something_else():
    plain = b'{"a": 1}'
    packed = gzip.compress(plain)
    came = []

    async def talk(server, reader, writer):
        while True:
            came.append(await server.read_request(reader))
            writer.write(OK)

    async def twice(exchange):
        raw = await exchange.read_body()
        assert exchange.decode(raw) == plain
        await exchange.send_upstream(raw)
        answer = await exchange.send_upstream(
            b'{"a":2}', drop=(b"content-encoding", b"accept-encoding"), add=((b"accept-encoding", b"identity"),)
        )
        await exchange.respond(answer)

    async with raw_server(talk) as server, a_proxy(server.url, handler=twice) as base, a_client(base) as client:
        await client.send(a_call(packed, headers=("content-encoding: gzip", "accept-encoding: br")))
        assert (await client.head())[0] == 200

    (first_head, first_body), (second_head, second_body) = came
    assert (first_body, second_body) == (packed, b'{"a":2}')
    assert b"content-encoding: gzip\r\n" in first_head
    assert b"content-encoding" not in second_head
    assert b"accept-encoding: identity\r\n" in second_head
    assert b"accept-encoding: br\r\n" not in second_head


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 413), ("compress", 415)])
async def test_body_that_cannot_be_decoded_is_refused_if_the_handler_lets_it(encoding, status):
    caught = []

    async def reading(exchange):
        try:
            exchange.decode(await exchange.read_body())
        except (BodyTooLarge, UnsupportedEncoding) as error:
            caught.append(error)
            raise

    ends = Ends(reading)
    async with (
        raw_server(silent) as server,
        a_proxy(server.url, handler=ends, server={"max_body_mb": 1}) as base,
        a_client(base) as client,
    ):
        await client.send(a_call(gzip.compress(b" " * 2_000_000), headers=(f"content-encoding: {encoding}",)))
        assert (await client.head())[0] == status
        end = await ends.only()

    assert end == End(outcome="refused", status=status, error=caught[0])


# Answers


async def test_chunks_pass_at_once_and_the_answer_ends_as_the_upstreams():
    ends, heard = Ends(), asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(CHUNKED + chunk(b"data: 1\n\n"))
        # The second comes only when the first is there: held back, neither would ever arrive.
        await heard.wait()
        writer.write(chunk(b"data: 2\n\n") + b"0\r\n\r\n")

    async with raw_server(talk) as server, a_proxy(server.url, handler=ends) as base, a_client(base) as client:
        await client.send(a_call())
        _, headers = await client.head()
        assert await client.reader.readexactly(14) == chunk(b"data: 1\n\n")
        heard.set()
        assert await client.reader.readexactly(19) == chunk(b"data: 2\n\n") + b"0\r\n\r\n"

    assert await ends.only() == End(outcome="complete", status=200)
    assert dict(headers)["content-type"] == "text/event-stream"


async def test_answer_that_breaks_off_breaks_off_for_the_client():
    ends = Ends()
    async with (
        raw_server(streaming(b"data: 1\n\n", cut=True)) as server,
        a_proxy(server.url, handler=ends) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        await client.head()

        assert await client.rest() == chunk(b"data: 1\n\n")
        end = await ends.only()
    assert (end.outcome, end.status) == ("truncated", 200)
    assert end.error is not None


async def test_head_without_body_passes():
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\nx-a: 1\r\n\r\n"
    async with raw_server(answering(head)) as server, a_proxy(server.url) as base, a_client(base) as client:
        for _ in range(2):
            await client.send(a_call(None, method="HEAD", path="/v1/models"))
            status, headers = await client.head()
            assert (status, dict(headers)["content-length"], dict(headers)["x-a"]) == (200, "500", "1")


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_that_have_no_body_pass(status):
    head = b"HTTP/1.1 %d X\r\netag: 1\r\ncontent-length: 7\r\n\r\n" % status
    head = head.replace(b"content-length: 7\r\n", b"") if status == 204 else head
    async with raw_server(answering(head)) as server, a_proxy(server.url) as base, a_client(base) as client:
        for _ in range(2):
            await client.send(a_call(None, method="GET"))
            got, headers = await client.head()
            assert (got, dict(headers)["etag"]) == (status, "1")


async def test_handler_adds_headers_hides_bytes_and_reads_a_copy():
    copy = []
    held = []

    def transform(piece):
        """Keeps one piece back until the end."""
        if not piece:
            return b"<" + b"".join(held) + b">"
        if piece == b"usage":
            held.append(piece)
            return b""
        return piece.upper()

    async def handler(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        await exchange.respond(answer, extra=((b"x-note", b"1"),), transform=transform, observe=copy.append)

    async with (
        raw_server(streaming(b"one", 0.05, b"usage", 0.05, b"two")) as server,
        a_proxy(server.url, handler=handler) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        _, headers = await client.head()

        assert await client.body(headers) == b"ONETWO<usage>"
    assert dict(headers)["x-note"] == "1"
    assert b"".join(copy) == b"oneusagetwo"


async def test_head_does_not_wait_for_bytes_that_the_handler_hides():
    gate = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(CHUNKED + chunk(b"hidden"))
        await gate.wait()
        writer.write(chunk(b"shown") + b"0\r\n\r\n")

    async def handler(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        await exchange.respond(answer, transform=lambda piece: b"" if piece == b"hidden" else piece)

    async with (
        raw_server(talk) as server,
        a_proxy(server.url, handler=handler) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        _, headers = await asyncio.wait_for(client.head(), 30)
        gate.set()

        assert await client.body(headers) == b"shown"


async def test_handler_may_look_at_the_first_chunk_before_it_answers():
    async def peeking(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        first = await answer.read()
        await exchange.respond(answer, held=(first,))

    async with (
        raw_server(streaming(b"one", 0.05, b"two")) as server,
        a_proxy(server.url, handler=peeking) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        _, headers = await client.head()

        assert await client.body(headers) == b"onetwo"


async def test_copy_of_an_encoded_answer_is_decoded_and_the_client_gets_the_original():
    plain = b"data: hello\n\n" * 50
    packed = gzip.compress(plain)
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    copy = []

    async def handler(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        await exchange.respond(answer, observe=copy.append, transform=lambda _piece: b"never", heartbeat=True)

    ends = Ends(handler)
    async with (
        raw_server(streaming(packed[:20], 0.12, packed[20:], head=head)) as server,
        a_proxy(server.url, handler=ends, server={"heartbeat_s": 0.05}) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        _, headers = await client.head()

        assert await client.body(headers) == packed
        assert (await ends.only()).observed
    assert b"".join(copy) == plain


@pytest.mark.parametrize("encoding", [b"gzip", b"made-up"])
async def test_copy_that_cannot_be_read_never_breaks_the_answer(encoding):
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-encoding: " + encoding + b"\r\n\r\n")

    async def handler(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        await exchange.respond(answer, observe=lambda _piece: None)

    ends = Ends(handler)
    async with (
        raw_server(streaming(b"opaque", b"bytes", head=head)) as server,
        a_proxy(server.url, handler=ends) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        _, headers = await client.head()

        assert await client.body(headers) == b"opaquebytes"
        assert await ends.only() == End(outcome="complete", status=200, observed=False)


async def test_silent_event_stream_beats_where_the_handler_wants_it():
    async def handler(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        await exchange.respond(answer, heartbeat=exchange.route.rest_path == "/v1/chat/completions")

    async with (
        raw_server(streaming(b"data: 1\n\n", 0.25, b"data: 2\n\n")) as server,
        a_proxy(server.url, handler=handler, server={"heartbeat_s": 0.1}) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        _, headers = await client.head()
        assert await client.body(headers) == b"data: 1\n\n: \n: \ndata: 2\n\n"

        await client.send(a_call(path="/v1/responses"))
        _, headers = await client.head()
        assert await client.body(headers) == b"data: 1\n\ndata: 2\n\n"


# Ends


async def test_client_that_leaves_before_the_head_is_followed_at_once():
    ends = Ends()
    async with (
        raw_server(silent) as server,
        a_proxy(server.url, handler=ends) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        await asyncio.wait_for(server.asked.wait(), 30)
        client.leave()
        await asyncio.wait_for(server.closed.wait(), 30)

        assert await ends.only() == End(outcome="client_closed", status=None)


async def test_client_that_leaves_within_the_answer_is_followed_at_once():
    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(CHUNKED + chunk(b"data: 1\n\n"))
        await server.wait_closed(reader)

    ends = Ends()
    async with raw_server(talk) as server, a_proxy(server.url, handler=ends) as base, a_client(base) as client:
        await client.send(a_call())
        await client.head()
        client.leave()
        await asyncio.wait_for(server.closed.wait(), 30)

        assert await ends.only() == End(outcome="client_closed", status=200)


@pytest.mark.parametrize("framing", ["content-length: 1000000", "transfer-encoding: chunked"])
async def test_client_that_leaves_within_its_body_is_followed_at_once(framing):
    async def talk(server, reader, writer):
        await server.read_head(reader)
        await server.wait_closed(reader)

    ends = Ends()
    async with raw_server(talk) as server, a_proxy(server.url, handler=ends) as base, a_client(base) as client:
        await client.send(f"POST /v1/files HTTP/1.1\r\nhost: p\r\n{framing}\r\n\r\n3\r\nabc\r\n".encode())
        await asyncio.wait_for(server.asked.wait(), 30)
        client.leave()
        await asyncio.wait_for(server.closed.wait(), 30)

        assert await ends.only() == End(outcome="client_closed", status=None)


async def test_client_that_leaves_while_the_handler_reads_or_thinks_ends_the_call():
    thinking = asyncio.Event()

    async def reading(exchange):
        await exchange.read_body()
        thinking.set()
        await asyncio.sleep(30)

    ends = Ends(reading)
    async with raw_server(silent) as server, a_proxy(server.url, handler=ends) as base:
        async with a_client(base) as client:
            await client.send(a_call(b"x" * 1000)[:-10])
            await asyncio.sleep(0.05)
            client.leave()
            assert await ends.only() == End(outcome="client_closed", status=None)
        assert not thinking.is_set()
        async with a_client(base) as client:
            await client.send(a_call())
            await asyncio.wait_for(thinking.wait(), 30)
            client.leave()
            await asyncio.sleep(0.1)

    assert ends.seen == [End(outcome="client_closed", status=None)] * 2


async def test_upstream_that_cannot_be_reached_is_told_in_the_clients_format():
    ends = Ends()
    async with a_proxy("http://127.0.0.1:9", handler=ends) as base, a_client(base) as client:
        await client.send(a_call(path="/v1/messages"))
        status, headers = await client.head()

        assert status == 502
        assert b'"type":"api_error"' in await client.body(headers)
        assert (await ends.only()).outcome == "refused"


async def test_the_log_says_why_an_upstream_failed():
    with capture_logs() as events:
        async with a_proxy("http://127.0.0.1:9") as base, a_client(base) as client:
            await client.send(a_call(path="/v1/messages"))
            await client.head()

    (event,) = [event for event in events if event["event"] == "upstream_failed"]
    assert event["upstream"] == "anthropic"
    assert event["reason"] == "cannot connect to the upstream 127.0.0.1:9 (ConnectionRefusedError)"


async def test_error_of_the_handler_is_an_error_in_the_clients_format_without_its_text():
    async def failing(exchange):
        raise RuntimeError("secret content")

    ends = Ends(failing)
    async with raw_server(silent) as server, a_proxy(server.url, handler=ends) as base, a_client(base) as client:
        await client.send(a_call())
        status, headers = await client.head()

        assert status == 500
        assert b"secret" not in await client.body(headers)
        assert (await ends.only()).outcome == "refused"


async def test_error_of_the_handler_within_the_answer_breaks_it_off():
    def failing(_piece):
        raise RuntimeError

    async def handler(exchange):
        await exchange.respond(await exchange.send_upstream(await exchange.read_body()), transform=failing)

    ends = Ends(handler)
    async with (
        raw_server(streaming(b"one")) as server,
        a_proxy(server.url, handler=ends) as base,
        a_client(base) as client,
    ):
        await client.send(a_call())
        await client.head()

        assert await client.rest() == b""
        assert (await ends.only()).outcome == "truncated"


@pytest.mark.parametrize("trouble", [RuntimeError, asyncio.CancelledError])
async def test_a_connection_that_cannot_be_let_go_keeps_no_call_from_its_end(trouble, monkeypatch):
    async def failing(_answer):
        raise trouble

    async def handler(exchange):
        answer = await exchange.send_upstream(await exchange.read_body())
        monkeypatch.setattr(type(answer), "aclose", failing)
        await exchange.respond(answer)

    ends = Ends(handler)
    async with raw_server(answering(OK)) as server, a_proxy(server.url, handler=ends) as base, a_client(base) as client:
        await client.send(a_call())
        await client.head()

        assert (await ends.only()).outcome == "complete"
        monkeypatch.undo()
