"""No client sees a context overflow, whatever it speaks, and whether or not the proxy knows the window."""

import pytest

from tests.bench.compaction import arguments, play, total_of
from tests.bench.speakers import SPEAKERS

SHORT = ["--sessions", "cc-tokenforge", "--window", "32768", "--jobs", "1"]


@pytest.mark.parametrize("dialect", SPEAKERS)
@pytest.mark.parametrize("knowledge", [[], ["--unknown"]], ids=["known", "unknown"])
def test_a_session_that_outgrows_the_window_is_played_without_a_fault(dialect, knowledge):
    total = total_of(play(arguments([*SHORT, "--dialect", dialect, *knowledge])))

    assert total.turns == 14
    assert total.failed == []
    assert total.above == total.taught
    assert total.input < total.input_large
