import asyncio

import pytest
from structlog.testing import capture_logs

from proxy.server.cycle import SERVED
from tests.server.clients import a_call
from tests.server.wires import answering, chunk, connected, start

pytestmark = pytest.mark.anyio

GET = a_call(None, method="GET", path="/a")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


async def played(app, raw=GET):
    """The connection and its transport after this request."""
    protocol, transport = connected(app)
    protocol.data_received(raw)
    await turns()
    return protocol, transport


async def test_head_and_first_chunk_leave_together():
    async def app(scope, receive, send):
        await start(send)
        await chunk(send, b"ab")
        await chunk(send, b"cd", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await turns()

    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab", b"cd"]


async def test_head_does_not_wait_for_a_chunk_that_comes_later():
    gate = asyncio.Event()

    async def app(scope, receive, send):
        await start(send)
        await gate.wait()
        await chunk(send, b"abcd", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await turns()
    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"]
    gate.set()
    await turns()

    assert transport.written[1:] == [b"abcd"]


async def test_answer_that_breaks_off_after_its_head_still_shows_the_head():
    async def app(scope, receive, send):
        await start(send)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await turns()

    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"]
    assert transport.closing


@pytest.mark.parametrize("follows", [True, False, None])
async def test_application_may_say_whether_the_body_follows_its_head_at_once(follows):
    async def app(scope, receive, send):
        served = scope["extensions"][SERVED]
        assert served.start(200, [(b"content-length", b"4")], body_follows=follows)
        assert served.finish(b"abcd")

    _, transport = await played(app)

    assert transport.written == ([HEAD, b"abcd"] if follows is False else [HEAD + b"abcd"])


async def test_without_room_nothing_is_sent_at_once():
    async def app(scope, receive, send):
        served = scope["extensions"][SERVED]
        protocol.pause_writing()
        assert not served.start(200, [(b"content-length", b"4")], body_follows=True)
        protocol.resume_writing()
        await start(send)
        protocol.pause_writing()
        assert not served.finish(b"abcd")
        assert transport.written == []
        protocol.resume_writing()
        assert served.finish(b"abcd")

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await turns()

    assert transport.written == [HEAD + b"abcd"]


async def test_what_is_sent_at_once_to_a_client_that_has_left_is_dropped():
    async def app(scope, receive, send):
        served = scope["extensions"][SERVED]
        protocol.connection_lost(None)
        assert served.start(200, [(b"content-length", b"4")], body_follows=True)
        assert served.finish(b"abcd")
        done.append(served.started)

    done = []
    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await turns()

    assert (done, transport.written) == ([False], [])


async def test_head_for_a_client_that_has_left_is_dropped():
    async def app(scope, receive, send):
        await start(send)
        transport.closing = True
        await asyncio.sleep(1)

    protocol, transport = connected(app)
    protocol.data_received(a_call(None, method="GET"))
    await turns()

    assert transport.written == []


async def test_interim_answer_leaves_at_once_and_a_chunk_may_look_like_a_head():
    async def app(scope, receive, send):
        await receive()
        await start(send)
        await chunk(send, b"HTTP")
        await chunk(send, b"", more=False)

    protocol, transport = connected(app)
    protocol.data_received(a_call(headers=("expect: 100-continue",)))
    await turns()

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
        await turns()
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
    await turns()
    assert [message["body"] for message in seen] == [b"hello"]
    protocol.data_received(b"0\r\n\r\n")
    await turns()
    assert [message["more_body"] for message in seen] == [True, False]


# Answers


async def test_answer_of_unknown_length_is_chunked():
    async def app(scope, receive, send):
        await start(send, (b"x", b"1"))
        await chunk(send, b"ab")
        await chunk(send, b"")
        await chunk(send, b"cd", more=False)

    _, transport = await played(app)

    head = b"HTTP/1.1 200 OK\r\nx: 1\r\ntransfer-encoding: chunked\r\n\r\n"
    assert transport.written == [head + b"2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n"]


async def test_answer_of_unknown_length_to_an_old_client_ends_with_its_connection():
    async def app(scope, receive, send):
        await start(send, (b"x", b"1"))
        await chunk(send, b"abcd", more=False)

    _, transport = await played(app, b"GET / HTTP/1.0\r\n\r\n")

    assert transport.sent == b"HTTP/1.1 200 OK\r\nx: 1\r\nconnection: close\r\n\r\nabcd"
    assert transport.closing


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_answer_without_a_body_says_nothing_of_chunks(method, status):
    async def app(scope, receive, send):
        await start(send, (b"x", b"1"), status=status)
        await chunk(send, b"", more=False)

    protocol, transport = await played(app, a_call(None, method=method))
    protocol.data_received(a_call(None, method=method))
    await turns()

    assert transport.sent.count(b"x: 1\r\n\r\n") == 2
    assert not transport.closing


async def test_answer_to_head_keeps_its_length_and_loses_its_body():
    async def app(scope, receive, send):
        await start(send)
        await chunk(send, b"abcd", more=False)

    _, transport = await played(app, a_call(None, method="HEAD"))

    assert transport.sent == HEAD


async def test_application_may_end_the_connection():
    async def app(scope, receive, send):
        await start(send, (b"content-length", b"0"), (b"connection", b"Close"))
        await chunk(send, b"", more=False)

    _, transport = await played(app)

    assert transport.sent == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    assert transport.closing


# Applications that go wrong


async def broken(scope, receive, send):
    raise RuntimeError("secret")


async def silent(scope, receive, send):
    pass


@pytest.mark.parametrize("app", [broken, silent])
async def test_application_without_an_answer_is_an_error_of_the_server(app):
    _, transport = await played(app)

    assert transport.sent.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"secret" not in transport.sent
    assert transport.closing


async def test_log_names_the_class_of_an_applications_error_and_not_its_text():
    with capture_logs() as events:
        await played(broken)

    assert [(event["event"], event["error_type"]) for event in events] == [("application_failed", "RuntimeError")]
    assert "secret" not in str(events)


@pytest.mark.parametrize(
    "bodies",
    [[b"abc"], [b"abcde"], [b"ab", b"cde"]],
)
async def test_body_of_another_length_than_was_told_ends_the_connection(bodies):
    async def app(scope, receive, send):
        await start(send)
        for number, body in enumerate(bodies, 1):
            await chunk(send, body, more=number < len(bodies))

    protocol, transport = await played(app)
    protocol.data_received(GET)
    await turns()

    assert transport.sent.count(b"HTTP/1.1") == 1
    assert transport.closing


@pytest.mark.parametrize("header", [(b"x", b"1\r\ny: 2"), (b"x\n", b"1"), (b"x", b"1\r")])
async def test_header_never_splits_an_answer(header):
    async def app(scope, receive, send):
        await start(send, header)
        await chunk(send, b"", more=False)

    _, transport = await played(app)

    assert transport.sent.startswith(b"HTTP/1.1 500 ")


async def test_messages_out_of_turn_are_refused():
    refused = []

    async def app(scope, receive, send):
        for message in ("http.response.body", "http.response.start", "http.response.start", "made.up"):
            try:
                await send({"type": message, "status": 204, "headers": []})
            except RuntimeError as error:
                refused.append(str(error))

    await played(app)

    assert [text.split(" ")[0] for text in refused] == ["http.response.body", "http.response.start", "made.up"]


# Clients that leave


def watching(left, *, until=60.0):
    async def app(scope, receive, send):
        served = scope["extensions"][SERVED]
        served.watch(lambda: left.append("left"))
        try:
            await asyncio.sleep(until)
        except asyncio.CancelledError:
            left.append("cancelled")

    return app


async def test_leaving_client_cancels_the_call_that_watches_it():
    left = []
    protocol, _ = await played(watching(left))
    assert left == []
    protocol.connection_lost(None)
    protocol.connection_lost(None)
    await turns()

    assert left == ["left", "cancelled"]


async def test_client_that_left_before_it_was_watched_is_noticed():
    left, gate = [], asyncio.Event()

    async def app(scope, receive, send):
        await gate.wait()
        await watching(left)(scope, receive, send)

    protocol, _ = await played(app)
    protocol.connection_lost(None)
    gate.set()
    await turns()

    assert left == ["left", "cancelled"]


async def test_client_that_nobody_watches_any_more_may_leave_unheard():
    left = []

    async def app(scope, receive, send):
        served = scope["extensions"][SERVED]
        served.watch(lambda: left.append("left"))
        served.watch(None)
        await asyncio.sleep(0)
        left.append("done")

    protocol, _ = connected(app)
    protocol.data_received(GET)
    await asyncio.sleep(0)
    protocol.connection_lost(None)
    await turns()

    assert left == ["done"]


async def test_application_that_waits_for_it_is_told_that_the_client_left_or_has_its_answer():
    messages = []

    async def app(scope, receive, send):
        messages.extend([await receive(), await receive()])

    protocol, _ = await played(app)
    protocol.connection_lost(None)
    await turns()
    assert [message["type"] for message in messages] == ["http.request", "http.disconnect"]

    async def answers(scope, receive, send):
        await answering(scope, receive, send)
        messages.append(await receive())

    await played(answers)
    assert messages[2] == {"type": "http.disconnect"}


async def test_what_is_sent_to_a_client_that_left_is_dropped():
    gate, done = asyncio.Event(), []

    async def app(scope, receive, send):
        await gate.wait()
        await answering(scope, receive, send)
        done.append(1)

    protocol, transport = await played(app)
    protocol.connection_lost(None)
    gate.set()
    await turns()

    assert (transport.sent, done) == (b"", [1])


def taking(bodies, left):
    """An app that takes the body if it is whole, and stays."""

    async def app(scope, receive, send):
        bodies.append(scope["extensions"][SERVED].whole(lambda: left.append("left")))
        try:
            await receive()
        except asyncio.CancelledError:
            left.append("cancelled")

    return app


async def test_body_that_is_here_is_taken_at_once_and_its_client_watched():
    bodies, left = [], []
    protocol, _ = await played(taking(bodies, left), a_call(b"abc"))
    assert (bodies, left) == ([b"abc"], [])
    protocol.connection_lost(None)
    await turns()

    assert left == ["left", "cancelled"]


async def test_request_without_a_body_is_whole():
    bodies = []
    await played(taking(bodies, []), GET)

    assert bodies == [b""]


@pytest.mark.parametrize("raw", [a_call(b"abc")[:-1], a_call(b"abc", headers=("expect: 100-continue",))])
async def test_body_that_is_not_all_here_or_waits_for_a_word_of_ours_is_received(raw):
    bodies = []
    await played(taking(bodies, []), raw)

    assert bodies == [None]


async def test_body_of_a_client_that_has_left_is_received():
    bodies = []
    protocol, _ = connected(taking(bodies, []))
    protocol.data_received(a_call(b"abc"))
    protocol.connection_lost(None)
    await turns()

    assert bodies == [None]


async def test_connection_that_a_large_body_paused_is_read_again_once_it_is_taken():
    bodies = []
    protocol, transport = connected(taking(bodies, []))
    protocol.data_received(a_call(b"1" * 1024 * 1024))
    assert not transport.reading
    await turns()

    assert (len(bodies[0]), transport.reading) == (1024 * 1024, True)


async def test_watched_connection_is_read_again():
    async def app(scope, receive, send):
        scope["extensions"][SERVED].watch(lambda: None)
        await asyncio.sleep(60)

    protocol, transport = connected(app)
    protocol.pause_reading()
    protocol.data_received(GET)
    await turns()

    assert transport.reading


async def test_a_piece_is_passed_on_without_waiting_as_long_as_there_is_room_and_somebody_to_read_it():
    said = []

    async def app(scope, receive, send):
        served = scope["extensions"][SERVED]
        await start(send, (b"x-a", b"b"))
        await chunk(send, b"ab")
        said.append(served.pass_on(b"cd"))
        protocol.pause_writing()
        said.append(served.pass_on(b"ef"))
        protocol.resume_writing()
        said.append(served.pass_on(b""))
        protocol.connection_lost(None)
        said.append(served.pass_on(b"gh"))

    protocol, transport = connected(app)
    protocol.data_received(GET)
    await turns()

    assert said == [True, False, True, False]
    assert transport.sent.endswith(b"2\r\nab\r\n2\r\ncd\r\n2\r\nef\r\n")
