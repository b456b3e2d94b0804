import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.server import descriptors
from proxy.server.descriptors import raise_limit


@pytest.fixture
def limits(monkeypatch):
    """The process's limits, as a list of soft and hard, of which the system takes 100,000 at most."""
    held = [256, 4096]

    def set_to(_what, wanted):
        if not 0 <= wanted[0] <= 100_000:
            raise ValueError("current limit exceeds maximum limit")
        held[:] = wanted

    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _what: tuple(held))
    monkeypatch.setattr(descriptors.resource, "setrlimit", set_to)
    return held


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([256, 4096], 4096),
        ([4096, 4096], 4096),
        # Without end: as much as the system takes.
        ([256, resource.RLIM_INFINITY], 10_240),
        ([256, 1_000_000], 10_240),
        ([20_000, resource.RLIM_INFINITY], 20_000),
    ],
)
def test_the_limit_is_raised_as_far_as_it_goes_and_never_lowered(limits, before, after):
    limits[:] = before

    assert raise_limit() == after
    assert limits == [after, before[1]]


def test_a_server_that_was_started_with_few_takes_what_it_may(tmp_path):
    if not Path("/proc/self/limits").exists():
        pytest.skip("only Linux tells of another process's limits")
    command = f"ulimit -Sn 256; exec {sys.executable} -m proxy serve --port 0 --store sqlite:///{tmp_path}/state.db"
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline()
        told = re.search(r"Max open files\s+(\S+)\s+(\S+)", Path(f"/proc/{process.pid}/limits").read_text())
        process.terminate()

    assert told[1] == told[2] != "256"
