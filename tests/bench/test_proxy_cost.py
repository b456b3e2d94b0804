"""The benchmark in its smallest form: it runs, and its figures can be. No limits of time."""

import shutil

import pytest

from tests.bench.proxy_cost import Scale, run, shown


@pytest.mark.slow
def test_the_cost_of_being_in_the_middle_is_measured():
    tables = run(Scale(quick=True, smoke=True), {"calls", "formats", "bodies", "chat", "streams", "stores", "workers"})

    rows = tables["one core"]
    ours = rows["ours"]
    assert set(rows) == {"direct", "ours"} | ({"nginx"} if shutil.which("nginx") else set())
    assert ours["2 KB, calls/s"] > 1
    assert ours["2 KB, CPU µs/call"] > 1
    assert ours["3 streams, finished"] == 3
    assert ours["idle, MB"] > 10
    assert "chat of 6 turns of 12 KB, 20 edits, CPU ms/call" in ours
    assert ours["2 such chats at once, 20 edits, CPU ms/call"] > 0
    pruning = tables["in the default configuration"]["ours"]
    assert pruning["2 such chats at once, a result goes at each turn, CPU ms/call"] > 0
    assert {"openai_chat", "anthropic_messages"} <= {figure.split(",")[0] for figure in ours}
    assert all(name in shown(rows) for name in rows)
    assert tables["by store"]["redis"]["2 KB, calls/s"] > 1
