import subprocess
import sys

import pytest

from proxy.server.engines import DEFAULT, ENGINES

pytestmark = pytest.mark.anyio


def test_the_default_is_one_of_them():
    assert DEFAULT in ENGINES


@pytest.mark.parametrize("name", ENGINES)
async def test_each_name_makes_an_engine_that_can_be_closed(name):
    engine = ENGINES[name]()

    assert callable(engine.send)
    await engine.aclose()


def test_an_engine_is_imported_only_when_it_is_made():
    code = "import sys, proxy.server.engines; print('aiohttp' in sys.modules, 'httpx' in sys.modules)"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert seen.stdout.split() == ["False", "False"]
