"""What all tests share."""

import signal

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


@pytest.fixture
def hangups_heard():
    """Processes that are started here hear of a terminal that closes, also where these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def log_as_before():
    """A test may configure the log; the next one finds it as it was."""
    yield
    structlog.reset_defaults()
