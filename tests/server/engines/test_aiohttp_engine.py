import pytest

from proxy.server.engines.aiohttp_engine import AiohttpEngine
from tests.server.engines.contract import EngineContract, a_request, body_of
from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio


class TestAiohttpEngine(EngineContract):
    make = AiohttpEngine

    async def test_very_long_and_very_many_headers_pass(self):
        headers = b"".join(b"x-%d: 1\r\n" % number for number in range(500))
        answer = b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 200_000 + b"\r\n" + headers + b"content-length: 0\r\n\r\n"
        async with raw_server(answering(answer)) as server, self.engine() as engine:
            got = await engine.send(a_request(server.url))
            await body_of(got)

        assert len(got.headers) == 502
