"""What all tests share."""

import pytest
import structlog
from hypothesis import HealthCheck, settings

# A busy machine may hold any example up: how long one takes says nothing.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def anyio_backend():
    """Async tests (`pytestmark = pytest.mark.anyio`) run on asyncio, the only loop that the proxy runs on."""
    return "asyncio"


@pytest.fixture(autouse=True)
def log_as_before():
    """A test may configure the log; the next one finds it as it was."""
    yield
    structlog.reset_defaults()
