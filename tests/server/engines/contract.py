"""What every engine must do, on real sockets."""

import asyncio
import hashlib
import socket
import ssl
import subprocess
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from proxy.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from proxy.server.engines.base import STALE_WITHIN_S, UpstreamRequest, Way
from tests.server.engines.raw import answering, raw_server
from tests.serving import serving

MB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def a_request(url, **changes):
    way = {name: changes.pop(name) for name in ("timeout_s", "ca_file", "detour") if name in changes}
    values = {
        "method": "POST",
        "target": b"/v1/chat/completions",
        "headers": [(b"content-type", b"application/json")],
        "body": b"{}",
    }
    return UpstreamRequest(way=Way(**({"url_base": url, "timeout_s": 20.0} | way)), **(values | changes))


async def body_of(answer):
    pieces = []
    while chunk := await answer.read():
        pieces.append(chunk)
    await answer.aclose()
    return b"".join(pieces)


async def in_pieces(*pieces):
    for piece in pieces:
        yield piece


def _timers():
    """Ports, from here to there, and kind of timer of each connection; 02 is that of probes (Linux, Documentation/networking/proc_net_tcp)."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        yield tuple(int(address.rpartition(":")[2], 16) for address in fields[1:3]), fields[5].partition(":")[0]


def a_certificate(folder):
    """The server's side of TLS for localhost, and the file of the authority that vouches for it."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    return tls, cert


async def tunnelling(server, reader, writer):
    """What an HTTP proxy does with CONNECT."""
    head = await server.read_head(reader)
    host, _, port = head.split(b" ", 2)[1].decode().rpartition(":")
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")

    async def pour(one, other):
        while piece := await one.read(65536):
            other.write(piece)
            await other.drain()
        other.close()

    try:
        await asyncio.gather(pour(reader, far_writer), pour(far_reader, writer))
    finally:
        far_writer.transport.abort()


class EngineContract:
    """Subclass with `make`: the engine's maker."""

    make = None

    @asynccontextmanager
    async def engine(self):
        engine = type(self).make()
        try:
            yield engine
        finally:
            await engine.aclose()

    # What goes out

    async def test_request_stands_on_the_wire_as_given(self):
        headers = [(b"x-b", b"1"), (b"accept-encoding", b"br"), (b"x-a", b"caf\xc3\xa9"), (b"x-b", b"2")]
        async with raw_server(answering(OK)) as server, self.engine() as engine:
            request = a_request(server.url + "/base", target=b"/v1/a%2Fb//c?x=%20y&z=%7E", headers=headers)
            await body_of(await engine.send(request))

        lines = server.heads[0].split(b"\r\n")
        assert lines[0] == b"POST /base/v1/a%2Fb//c?x=%20y&z=%7E HTTP/1.1"
        assert lines[1].lower() == b"host: " + server.url[7:].encode()
        assert [tuple(line.split(b": ", 1)) for line in lines[2:6]] == headers
        assert [line.lower() for line in lines[6:]] == [b"content-length: 2", b"", b""]

    @pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
    async def test_nothing_is_added_to_a_bare_request(self, method):
        async with raw_server(answering(OK)) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url, method=method, headers=[], body=None)))

        names = {line.split(b":")[0].lower() for line in server.heads[0].split(b"\r\n")[1:] if line}
        assert names - {b"content-length"} == {b"host"}

    async def test_body_that_arrives_in_pieces_goes_out_chunked_or_with_its_known_length(self):
        bodies = []

        async def talk(server, reader, writer):
            while True:
                bodies.append(await server.read_request(reader))
                writer.write(OK)

        async with raw_server(talk) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url, headers=[], body=in_pieces(b"ab", b"cd"))))
            known = a_request(server.url, headers=[(b"content-length", b"4")], body=in_pieces(b"ab", b"cd"))
            await body_of(await engine.send(known))

        assert [body for _, body in bodies] == [b"abcd", b"abcd"]
        assert b"transfer-encoding: chunked" in bodies[0][0].lower()
        assert b"content-length" not in bodies[0][0].lower()
        assert b"content-length: 4" in bodies[1][0].lower()
        assert b"transfer-encoding" not in bodies[1][0].lower()

    async def test_the_system_asks_after_the_other_end_while_an_answer_takes_its_time(self):
        """Firewalls forget connections on which nothing moves for some minutes; the SDKs' own are probed so, too."""
        if not Path("/proc/net/tcp").exists():
            pytest.skip("only Linux tells of another socket's timers")
        timers = []

        async def talk(server, reader, writer):
            await server.read_request(reader)
            # The port alone may be that of an earlier connection to elsewhere, which the system remembers for a minute.
            ports = writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1]
            # Until what was sent is acknowledged, the socket waits for that instead.
            while not timers:
                timers.extend(timer for those, timer in _timers() if those == ports and timer != "01")
                await asyncio.sleep(0.01)
            writer.write(OK)

        async with raw_server(talk) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url)))

        assert timers == ["02"]

    async def test_large_bodies_go_both_ways(self):
        block = bytes(range(256)) * 4096
        digest = hashlib.sha256()

        async def app(scope, receive, send):
            if scope["type"] != "http":
                return
            more = True
            while more:
                message = await receive()
                digest.update(message.get("body", b""))
                more = message.get("more_body", False)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(64):
                await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        async with serving(app) as url, self.engine() as engine:
            answer = await engine.send(a_request(url, body=block * 64, timeout_s=30.0))
            back = hashlib.sha256()
            while chunk := await answer.read():
                back.update(chunk)
            await answer.aclose()

        assert answer.complete
        assert digest.digest() == back.digest() == hashlib.sha256(block * 64).digest()

    # What comes back

    async def test_chunks_come_when_they_are_sent(self):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for number in range(3):
                writer.write(b"8\r\ndata: %d\n\r\n" % number)
                await asyncio.sleep(0.15)
            writer.write(b"0\r\n\r\n")

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))
            started = time.monotonic()
            arrivals = []
            while chunk := await answer.read():
                arrivals.append((chunk, time.monotonic() - started))
            await answer.aclose()

        assert [chunk for chunk, _ in arrivals] == [b"data: 0\n", b"data: 1\n", b"data: 2\n"]
        assert all(abs(seen - 0.15 * number) < 0.1 for number, (_, seen) in enumerate(arrivals))
        assert answer.complete

    async def test_answer_is_handed_over_raw(self):
        packed = bytes.fromhex("0b02807b7d0103ff00fe")
        head = (
            b"HTTP/1.1 302 Elsewhere\r\nLocation: /other\r\nSet-Cookie: a=1\r\nX-Multi: 1\r\nSet-Cookie: b=2\r\n"
            b"Content-Encoding: br\r\nContent-Length: 10\r\n\r\n"
        )
        async with raw_server(answering(head + packed)) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))
            body = await body_of(answer)
            await body_of(await engine.send(a_request(server.url)))

        assert (answer.status, body) == (302, packed)
        assert answer.headers == [
            (b"location", b"/other"),
            (b"set-cookie", b"a=1"),
            (b"x-multi", b"1"),
            (b"set-cookie", b"b=2"),
            (b"content-encoding", b"br"),
            (b"content-length", b"10"),
        ]
        # Not followed, no cookie sent back, one connection for both.
        assert [head.split(b" ")[1] for head in server.heads] == [b"/v1/chat/completions"] * 2
        assert b"cookie" not in server.heads[1].lower()
        assert server.connections == 1

    async def test_interim_answers_are_passed_over(self):
        early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
        async with raw_server(answering(early + OK)) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))

            assert (answer.status, await body_of(answer)) == (200, b"ok")

    @pytest.mark.parametrize(
        ("method", "head"),
        [
            ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"),
            ("POST", b"HTTP/1.1 204 No Content\r\n\r\n"),
            ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n"),
            ("POST", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ],
    )
    async def test_answers_without_a_body_are_complete_and_keep_the_connection(self, method, head):
        async with raw_server(answering(head)) as server, self.engine() as engine:
            for _ in range(2):
                answer = await engine.send(a_request(server.url, method=method, body=None))
                assert await body_of(answer) == b""
                assert answer.complete

        assert server.connections == 1

    async def test_body_may_end_with_its_connection(self):
        talk = answering(b"HTTP/1.1 200 OK\r\n\r\nto the end", then_close=True)
        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))

            assert await body_of(answer) == b"to the end"
            assert answer.complete

    async def test_long_headers_pass(self):
        value = b"x" * 60_000
        answer = b"HTTP/1.1 200 OK\r\nx-long: " + value + b"\r\ncontent-length: 0\r\n\r\n"
        async with raw_server(answering(answer)) as server, self.engine() as engine:
            got = await engine.send(a_request(server.url, headers=[(b"x-long", value)]))
            await body_of(got)

        assert (b"x-long", value) in got.headers
        assert value in server.heads[0]

    async def test_chunks_may_be_read_on_after_a_pause(self):
        chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(chunked + b"1\r\na\r\n")
            await asyncio.sleep(0.05)
            writer.write(b"1\r\nb\r\n0\r\n\r\n")

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))
            first = await answer.read()

            assert (first, await body_of(answer)) == (b"a", b"b")
            assert answer.complete

    async def test_pieces_may_be_taken_as_they_arrive_and_read_on_from_there(self):
        chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        poured = []

        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(chunked)
            for piece in b"abcdef":
                writer.write(b"1\r\n%c\r\n" % piece)
                await asyncio.sleep(0.03)
            writer.write(b"0\r\n\r\n")

        def into(piece):
            poured.append(piece)
            return b"c" not in piece

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))
            whole = await answer.read()
            await answer.pour(into)
            assert not any(b"c" in piece for piece in poured[:-1])
            whole += b"".join(poured)
            poured.clear()
            whole += await answer.read()
            await answer.pour(lambda piece: poured.append(piece) or True)
            whole += b"".join(poured) + await body_of(answer)

            assert answer.complete
        assert whole == b"abcdef"

    # What goes wrong

    @pytest.mark.parametrize(
        ("head", "how"),
        [
            (b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", "close"),
            (b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", "reset"),
            (b"content-length: 50\r\n\r\nhello", "close"),
            (b"content-length: 50\r\n\r\nhello", "reset"),
            (b"\r\nhello", "reset"),
        ],
    )
    async def test_answer_that_breaks_off_is_not_complete(self, head, how):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n" + head)
            await writer.drain()
            await asyncio.sleep(0.05)
            if how == "reset":
                # Nothing lingers: the close is a reset.
                linger = b"\1\0\0\0\0\0\0\0"
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))

            assert await body_of(answer) == b"hello"
            assert await answer.read() == b""
            assert not answer.complete
            assert isinstance(answer.error, UpstreamBroken)

    async def test_port_that_nobody_listens_on_is_unreachable(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        async with self.engine() as engine:
            with pytest.raises(UpstreamUnreachable) as caught:
                await engine.send(a_request(f"http://127.0.0.1:{port}", target=b"/v1/x?key=secret"))

        assert "secret" not in str(caught.value)

    async def test_silence_before_the_head_is_a_timeout(self):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            await server.wait_closed(reader)

        async with raw_server(talk) as server, self.engine() as engine:
            started = time.monotonic()
            with pytest.raises(UpstreamTimeout):
                await engine.send(a_request(server.url, timeout_s=0.3))

            assert 0.25 < time.monotonic() - started < 20
            await asyncio.wait_for(server.closed.wait(), 30)
        assert server.connections == 1

    async def test_silence_inside_the_body_ends_it_incomplete(self):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
            await server.wait_closed(reader)

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url, timeout_s=0.3))

            assert await body_of(answer) == b"hi"
            assert not answer.complete
            assert isinstance(answer.error, UpstreamTimeout)

    @pytest.mark.parametrize("answer", [b"NOT HTTP AT ALL\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-le", b""])
    async def test_answer_that_is_none_is_broken_and_not_asked_for_again(self, answer):
        async with raw_server(answering(answer, then_close=True)) as server, self.engine() as engine:
            with pytest.raises(UpstreamBroken):
                await engine.send(a_request(server.url))

        assert server.connections == 1

    # Who leaves

    async def test_cancelling_before_the_head_closes_the_connection_at_once(self):
        asked = asyncio.Event()

        async def talk(server, reader, writer):
            await server.read_request(reader)
            asked.set()
            await server.wait_closed(reader)

        async with raw_server(talk) as server, self.engine() as engine:
            task = asyncio.ensure_future(engine.send(a_request(server.url)))
            await asyncio.wait_for(asked.wait(), 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.closed.wait(), 30)

    async def test_letting_go_of_an_unread_body_closes_the_connection_at_once(self):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
            await server.wait_closed(reader)

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))
            assert await answer.read() == b"hi"
            await answer.aclose()
            await asyncio.wait_for(server.closed.wait(), 30)

        assert not answer.complete

    @pytest.mark.parametrize("turns", range(4))
    async def test_leaving_at_the_very_end_leaves_the_connection_kept_or_closed(self, turns):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(OK)
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await server.read_request(reader)
                writer.write(OK)
            server.closed.set()

        async with raw_server(talk) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url))
            assert await answer.read() == b"ok"
            end = asyncio.ensure_future(answer.read())
            for _ in range(turns):
                await asyncio.sleep(0)
            end.cancel()
            await asyncio.wait({end})
            if not answer.complete:
                await answer.aclose()

            assert await body_of(await engine.send(a_request(server.url))) == b"ok"
            # By the second request, or by its end.
            await asyncio.wait_for(server.closed.wait(), 30)

    # Kept connections

    @staticmethod
    def dying(server_waits_s=0.0):
        """Each connection answers once, then takes a second request and closes without a byte."""

        async def talk(server, reader, writer):
            await server.read_request(reader)
            writer.write(OK)
            await server.read_request(reader)
            await asyncio.sleep(server_waits_s)

        return talk

    async def test_kept_connection_that_proves_dead_is_replaced_once(self):
        async with raw_server(self.dying()) as server, self.engine() as engine:
            for _ in range(2):
                assert await body_of(await engine.send(a_request(server.url))) == b"ok"

        assert (server.connections, len(server.heads)) == (2, 3)

    async def test_kept_connection_that_dies_late_may_have_been_at_work(self):
        async with raw_server(self.dying(server_waits_s=2.5)) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url)))
            with pytest.raises(UpstreamBroken):
                await engine.send(a_request(server.url))

        assert len(server.heads) == 2

    async def test_death_that_a_busy_loop_sees_late_is_an_early_one(self):
        """A burst of calls holds the loop up for longer than a dead connection is waited for."""
        async with raw_server(self.dying()) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url)))
            again = asyncio.ensure_future(engine.send(a_request(server.url)))
            while len(server.heads) < 2:
                await asyncio.sleep(0.005)
            time.sleep(STALE_WITHIN_S + 0.1)
            assert await body_of(await again) == b"ok"

        assert (server.connections, len(server.heads)) == (2, 3)

    async def test_body_that_cannot_be_read_again_is_not_sent_again(self):
        async with raw_server(self.dying()) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url)))
            with pytest.raises(UpstreamBroken):
                await engine.send(a_request(server.url, body=in_pieces(b"{}")))

        assert len(server.heads) == 2

    async def test_closed_connection_is_not_taken_from_the_pool(self):
        async with raw_server(answering(OK, then_close=True)) as server, self.engine() as engine:
            for _ in range(3):
                await body_of(await engine.send(a_request(server.url)))
                await asyncio.sleep(0.02)

        assert len(server.heads) == 3

    async def test_hundreds_of_calls_run_at_once(self):
        async def talk(server, reader, writer):
            await server.read_request(reader)
            await asyncio.sleep(0.3)
            writer.write(OK)

        async with raw_server(talk) as server, self.engine() as engine:
            answers = await asyncio.gather(*(engine.send(a_request(server.url)) for _ in range(200)))
            for answer in answers:
                assert await body_of(answer) == b"ok"

        assert server.connections == 200

    # TLS

    async def test_authorities_of_an_upstream_of_ones_own_are_trusted_from_a_file(self, tmp_path):
        tls, cert = a_certificate(tmp_path)
        async with raw_server(answering(OK), tls=tls) as server, self.engine() as engine:
            answer = await engine.send(a_request(server.url, ca_file=str(cert)))
            assert await body_of(answer) == b"ok"
            with pytest.raises(UpstreamUnreachable):
                await engine.send(a_request(server.url))

    # Through an HTTP proxy

    async def test_a_proxy_on_the_way_makes_a_tunnel_to_what_speaks_tls(self, tmp_path):
        tls, cert = a_certificate(tmp_path)
        async with (
            raw_server(answering(OK), tls=tls) as server,
            raw_server(tunnelling) as between,
            self.engine() as engine,
        ):
            detour = between.url.replace("//", "//me:s%40crt@")
            for _ in range(2):
                request = a_request(server.url + "/base", ca_file=str(cert), detour=detour)
                assert await body_of(await engine.send(request)) == b"ok"
            # Kept connections through the tunnel are not used for going directly.
            assert await body_of(await engine.send(a_request(server.url, ca_file=str(cert)))) == b"ok"

        place = server.url.removeprefix("https://").encode()
        lines = between.heads[0].split(b"\r\n")
        assert lines[0] == b"CONNECT " + place + b" HTTP/1.1"
        named = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines[1:] if line)}
        # me:s@crt
        assert (named[b"host"], named[b"proxy-authorization"]) == (place, b"Basic bWU6c0BjcnQ=")
        assert (between.connections, server.connections) == (1, 2)
        assert server.heads[0].startswith(b"POST /base/v1/chat/completions HTTP/1.1\r\n")
        assert not any(b"proxy-authorization" in head.lower() for head in server.heads)

    async def test_a_proxy_on_the_way_gets_the_whole_address_of_what_does_not(self):
        async with raw_server(answering(OK)) as between, self.engine() as engine:
            request = a_request("http://models.example:8000/base", detour=between.url.replace("//", "//me:x@"))
            assert await body_of(await engine.send(request)) == b"ok"

        lines = between.heads[0].split(b"\r\n")
        assert lines[0] == b"POST http://models.example:8000/base/v1/chat/completions HTTP/1.1"
        named = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines[1:] if line)}
        assert (named[b"host"], named[b"proxy-authorization"]) == (b"models.example:8000", b"Basic bWU6eA==")

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            b"",
            b"nonsense\r\n\r\n",
        ],
    )
    async def test_a_proxy_that_makes_no_tunnel_leaves_the_upstream_unreachable(self, answer):
        async def refuse(server, reader, writer):
            await server.read_head(reader)
            writer.write(answer)
            await writer.drain()

        async with raw_server(refuse) as between, self.engine() as engine:
            with pytest.raises((UpstreamUnreachable, UpstreamBroken)) as caught:
                await engine.send(a_request("https://models.example", detour=between.url))

        # Nothing of it was sent, so that it is not for nothing that it can be sent again.
        assert between.connections <= 2
        assert "models.example" not in str(caught.value)

    async def test_a_proxy_on_the_way_that_is_not_there_leaves_the_upstream_unreachable(self):
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            nobody = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with self.engine() as engine:
            with pytest.raises(UpstreamUnreachable):
                await engine.send(a_request("https://models.example", detour=nobody))
