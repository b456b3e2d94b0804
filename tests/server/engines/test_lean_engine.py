import errno
import socket

import pytest

from proxy.errors import UpstreamUnreachable
from proxy.server.engines.lean_engine import LeanEngine
from tests.server.engines.contract import EngineContract, a_certificate, a_request, body_of, in_pieces
from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio


class TestLeanEngine(EngineContract):
    make = LeanEngine

    async def test_body_that_cannot_be_read_again_is_not_sent_again(self):
        """Nor is it risked on a kept connection."""
        async with raw_server(self.dying()) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url)))
            assert await body_of(await engine.send(a_request(server.url, body=in_pieces(b"{}")))) == b"ok"

        assert (server.connections, len(server.heads)) == (2, 2)


async def test_lines_that_are_known_are_not_written_once_more():
    async with raw_server(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")) as server:
        engine = LeanEngine()
        for changes in ({}, {"lines": b"a: 1\r\nb: 2\r\n"}, {"headers": [], "lines": b""}, {"headers": []}):
            await body_of(
                await engine.send(a_request(server.url, **({"headers": [(b"a", b"1"), (b"b", b"2")]} | changes)))
            )
        await engine.aclose()

    assert server.heads[0] == server.heads[1]
    assert server.heads[0].replace(b"a: 1\r\nb: 2\r\n", b"") == server.heads[2] == server.heads[3]


async def test_a_certificate_that_is_not_trusted_is_said_to_be_so_with_what_to_do(tmp_path):
    tls, _ = a_certificate(tmp_path)
    async with raw_server(answering(b""), tls=tls) as server:
        with pytest.raises(UpstreamUnreachable) as caught:
            await LeanEngine().send(a_request(server.url))

    assert "(SSLCertVerificationError: self-signed certificate; upstreams.NAME.ca_file names" in str(caught.value)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "EMFILE"),
        (OSError("several addresses"), "OSError"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "ConnectionRefusedError"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "gaierror: Name or service not known"),
    ],
)
async def test_why_there_is_no_connection_is_said_by_the_system_s_own_name_where_the_class_says_nothing(
    monkeypatch, error, said
):
    async def start_connection(*_args, **_named):
        raise error

    monkeypatch.setattr("aiohappyeyeballs.start_connection", start_connection)
    with pytest.raises(UpstreamUnreachable, match=rf"cannot connect to the upstream 127\.0\.0\.1:1 \({said}\)"):
        await LeanEngine().send(a_request("http://127.0.0.1:1"))
