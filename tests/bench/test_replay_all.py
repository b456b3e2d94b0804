"""The replay of recorded sessions finds no fault with the proxy, in any wire format."""

import pytest

from tests.bench.replay_all import arguments, replay, total_of
from tests.bench.speakers import SPEAKERS


@pytest.mark.parametrize("dialect", SPEAKERS)
def test_short_sessions_are_replayed_without_a_fault(dialect):
    results = replay(arguments(["--sessions", "t[ao][uo]*-1*", "--turns", "6", "--jobs", "1", "--dialect", dialect]))
    total = total_of(results)

    assert len(results) > 3
    assert total.turns > 10
    assert (total.faults, total.where, total.own_errors) == (0, [], [])
    assert total.input_direct > 0
