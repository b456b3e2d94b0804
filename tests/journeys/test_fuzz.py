"""A slice of what `python -m tests.bench.fuzz` does for hours: hostile input breaks no promise."""

import pytest

from tests.bench.fuzz import SHARES, fuzzed

INPUTS = {"bodies": 150, "streams": 150, "headers": 300, "sockets": 60}


@pytest.mark.parametrize("kind", SHARES)
def test_hostile_input_breaks_no_promise(kind):
    figures = fuzzed(kind, INPUTS[kind], 20)

    assert figures.failures == []
    assert figures.inputs >= INPUTS[kind]
    assert len(figures.came_to) > 1
