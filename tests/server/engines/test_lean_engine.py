import pytest

from proxy.server.engines.lean_engine import LeanEngine
from tests.server.engines.contract import EngineContract, a_request, body_of, in_pieces
from tests.server.engines.raw import raw_server

pytestmark = pytest.mark.anyio


class TestLeanEngine(EngineContract):
    make = LeanEngine

    async def test_body_that_cannot_be_read_again_is_not_sent_again(self):
        """Nor is it risked on a kept connection."""
        async with raw_server(self.dying()) as server, self.engine() as engine:
            await body_of(await engine.send(a_request(server.url)))
            assert await body_of(await engine.send(a_request(server.url, body=in_pieces(b"{}")))) == b"ok"

        assert (server.connections, len(server.heads)) == (2, 2)
