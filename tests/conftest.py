"""What all tests share."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend():
    """Async tests (`pytestmark = pytest.mark.anyio`) run on asyncio, the only loop that the proxy runs on."""
    return "asyncio"
