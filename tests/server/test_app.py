import asyncio
import signal
import sys
import time
from contextlib import asynccontextmanager

import pytest
from starlette.responses import PlainTextResponse

from proxy.server.settling import SETTLE_S
from proxy.settings.values import Server, Settings, Upstream
from tests.server.clients import a_call, a_client, a_proxy
from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def status_of(client, call):
    await client.send(call)
    status, headers = await client.head()
    return status, await client.body(headers) if "content-length" in dict(headers) else b""


# Where calls go


async def test_path_and_query_reach_the_upstream_as_they_came():
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        await status_of(client, a_call(path="/v1//models/a%2Fb?x=%20y&&z=%7E"))
        await status_of(client, a_call(path="/up/anthropic/v1/messages?beta=true"))

    assert [head.split(b" ")[1] for head in server.heads] == [
        b"/v1//models/a%2Fb?x=%20y&&z=%7E",
        b"/v1/messages?beta=true",
    ]


@pytest.mark.parametrize("path", ["/up/nobody/v1/models", "/up//v1/models", "/up/"])
async def test_unknown_upstream_is_not_found(path):
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        status, body = await status_of(client, a_call(path=path))

    assert status == 404
    assert b"has an address; --upstream NAME=URL gives it one" in body
    assert server.heads == []


async def test_upstream_that_still_needs_its_url_is_not_found():
    async with a_proxy("") as base, a_client(base) as client:
        assert (await status_of(client, a_call()))[0] == 404


@pytest.mark.parametrize("path", ["/_proxy", "/_proxy/api/sessions", "/metrics", "/healthz", "/readyz"])
async def test_own_pages_are_never_forwarded(path):
    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, control=PlainTextResponse("own page")) as base,
        a_client(base) as client,
    ):
        assert await status_of(client, a_call(None, path=path, method="GET")) == (200, b"own page")
    assert server.heads == []


async def test_a_browser_at_the_bare_address_gets_an_own_page_and_an_api_client_the_upstreams():
    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, control=PlainTextResponse("own page")) as base,
        a_client(base) as client,
    ):
        assert (await status_of(client, a_call(None, path="/", method="GET", headers=("accept: text/html,*/*",))))[
            1
        ] == b"own page"
        assert server.heads == []
        assert (await status_of(client, a_call(None, path="/", method="GET", headers=("accept: */*",))))[
            1
        ] != b"own page"
        # Java's own HTTP client asks for pages with every call.
        a_post = a_call(b"{}", path="/", headers=("accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",))
        assert (await status_of(client, a_post))[1] != b"own page"
    assert len(server.heads) == 2


async def test_without_own_pages_there_is_still_the_health_page():
    async with a_proxy("http://127.0.0.1:9") as base, a_client(base) as client:
        assert await status_of(client, a_call(None, path="/healthz", method="GET")) == (200, b'{"status":"ok"}')
        assert (await status_of(client, a_call(None, path="/_proxy/", method="GET")))[0] == 404


# What is refused


@pytest.mark.parametrize(
    "header", ["x-upstream-base-url: http://10.0.0.1", "X-Custom-Base-URL: http://x", "x-portkey-custom-host: http://x"]
)
async def test_request_never_chooses_an_address(header):
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        status, _ = await status_of(client, a_call(headers=(header,)))

    assert (status, server.heads) == (400, [])


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n\r\n",
        b"transfer-encoding: gzip, chunked\r\n\r\n",
        b"x-a: 1\r\n folded: 2\r\ncontent-length: 0\r\n\r\n",
        b"host: second\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_request_that_two_readers_could_read_differently_is_refused(head):
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        await client.send(b"POST /v1/x HTTP/1.1\r\nhost: p\r\n" + head)

        assert (await client.head())[0] == 400
    assert server.heads == []


async def test_websocket_is_refused_so_that_clients_fall_back():
    upgrade = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-key: x", "sec-websocket-version: 13")
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        status, body = await status_of(client, a_call(None, method="GET", path="/v1/responses", headers=upgrade))
        assert await client.rest() == b""

    assert (status, server.heads) == (426, [])
    assert b'"message"' in body


async def test_other_upgrades_are_ignored():
    """As Java's client asks with every first call (RFC 9110 section 7.8 allows to ignore it)."""
    wish = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQ")
    async with raw_server(answering(OK)) as server, a_proxy(server.url) as base, a_client(base) as client:
        assert (await status_of(client, a_call(b'{"a":1}', headers=wish)))[0] == 200
        assert (await status_of(client, a_call()))[0] == 200

    assert b"content-length: 7\r\n" in server.heads[0]
    assert b"upgrade" not in server.heads[0].lower()
    assert b"http2-settings" not in server.heads[0].lower()


# Keys


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/V1/CHAT", "//v1/x", "/v1/x/", "/nowhere", "/up/openai/v1/x", "/up/nobody/x", "/"]
)
@pytest.mark.parametrize("method", ["POST", "GET", "HEAD", "OPTIONS"])
async def test_without_a_key_every_door_is_shut(path, method):
    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, server={"require_keys": ("px-1",)}) as base,
        a_client(base) as client,
    ):
        await client.send(a_call(path=path, method=method))

        assert (await client.head())[0] == 401
    assert server.heads == []


async def test_key_opens_the_door_and_goes_no_further():
    callers = []

    async def handler(exchange):
        callers.append(exchange.admitted.key_name)
        await exchange.respond(await exchange.send_upstream(await exchange.read_body()))

    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, server={"require_keys": ("me=px-1",)}, handler=handler) as base,
        a_client(base) as client,
    ):
        call = a_call(headers=("x-proxy-key: px-1", "authorization: Bearer sk-mine"))
        assert (await status_of(client, call))[0] == 200

    assert callers == ["me"]
    assert b"px-1" not in server.heads[0]
    assert b"authorization: Bearer sk-mine" in server.heads[0]


async def test_upstreams_own_key_replaces_the_proxy_key():
    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, server={"require_keys": ("px-1",)}, upstream={"api_key": "sk-own"}) as base,
        a_client(base) as client,
    ):
        assert (await status_of(client, a_call(headers=("authorization: Bearer px-1",))))[0] == 200
        gemini = a_call(path="/v1beta/models/g:generateContent?alt=sse&key=px-1")
        assert (await status_of(client, gemini))[0] == 200
        assert (await status_of(client, a_call(headers=("authorization: Bearer wrong",))))[0] == 401

    assert b"authorization: Bearer sk-own" in server.heads[0]
    assert server.heads[1].startswith(b"POST /v1beta/models/g:generateContent?alt=sse HTTP/1.1\r\n")
    assert b"x-goog-api-key: sk-own" in server.heads[1]
    assert b"px-1" not in b"".join(server.heads)


# The process


@asynccontextmanager
async def a_process(settings, directory):
    """`run` in a process of its own; gives the process and its base URL."""
    import msgspec

    file = directory / "settings.json"
    file.write_bytes(msgspec.json.encode(settings))
    code = (
        "import sys, msgspec; from proxy.server.app import run; from proxy.settings.values import Settings\n"
        "settings = msgspec.json.decode(open(sys.argv[1], 'rb').read(), type=Settings)\n"
        "sys.exit(run(settings, announce=lambda host, port: print(f'http://{host}:{port}', flush=True)))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(file), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()


@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_process_lets_running_streams_end_and_takes_no_new_ones(tmp_path, number):
    gate = asyncio.Event()

    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(CHUNKED + b"3\r\none\r\n")
        await gate.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with raw_server(talk) as server:
        settings = Settings(server=Server(port=0), upstreams={"openai": Upstream(base_url=server.url)})
        async with a_process(settings, tmp_path) as (process, base):
            async with a_client(base) as client, a_client(base) as idle:
                await client.send(a_call())
                _, headers = await client.head()
                process.send_signal(number)
                # A connection without a call is closed, the port is shut, the stream goes on.
                assert await idle.rest() == b""
                with pytest.raises(ConnectionError):
                    async with a_client(base):
                        pass
                gate.set()
                assert await client.body(headers) == b"onetwo"
            assert await asyncio.wait_for(process.wait(), 30) == 0
            assert await process.stderr.read() == b""


async def test_process_says_what_it_waits_for_and_a_second_interrupt_cuts_it_off(tmp_path):
    async def talk(server, reader, writer):
        await server.read_request(reader)
        writer.write(CHUNKED + b"3\r\none\r\n")
        await asyncio.sleep(60)

    async with raw_server(talk) as server:
        settings = Settings(server=Server(port=0), upstreams={"openai": Upstream(base_url=server.url)})
        async with a_process(settings, tmp_path) as (process, base), a_client(base) as client:
            await client.send(a_call())
            await client.head()
            process.send_signal(signal.SIGINT)
            said = (await asyncio.wait_for(process.stdout.readline(), 10)).decode()
            assert "waits_for_calls" in said
            assert "calls=1" in said
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            assert await asyncio.wait_for(process.wait(), 30) == 0
            assert time.monotonic() - began < SETTLE_S - 1


async def test_process_adds_no_server_and_date_to_an_answer(tmp_path):
    answer = b"HTTP/1.1 200 OK\r\nserver: theirs\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n"
    async with raw_server(answering(answer)) as server:
        settings = Settings(server=Server(port=0), upstreams={"openai": Upstream(base_url=server.url)})
        async with a_process(settings, tmp_path) as (_, base), a_client(base) as client:
            await client.send(a_call())
            _, headers = await client.head()

    assert headers == [("server", "theirs"), ("date", "thu, 01 jan 2026 00:00:00 gmt"), ("content-length", "0")]


async def test_process_says_that_its_port_is_taken(tmp_path):
    async with raw_server(answering(OK)) as server:
        port = int(server.url.rsplit(":", 1)[1])
        async with a_process(Settings(server=Server(port=port)), tmp_path) as (process, base):
            assert await process.wait() == 1
            assert base == ""
            assert b"OSError" in await process.stderr.read()
