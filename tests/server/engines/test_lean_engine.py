import pytest

from proxy.server.engines.lean_engine import LeanEngine
from tests.server.engines.contract import EngineContract

pytestmark = pytest.mark.anyio


class TestLeanEngine(EngineContract):
    make = LeanEngine
