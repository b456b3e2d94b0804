import pytest

from proxy.server.engines.httpx_engine import HttpxEngine
from tests.server.engines.contract import EngineContract

pytestmark = pytest.mark.anyio


class TestHttpxEngine(EngineContract):
    make = HttpxEngine
