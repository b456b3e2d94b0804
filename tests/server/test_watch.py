import time

import pytest
from structlog.testing import capture_logs

from proxy.errors import StoreError
from proxy.server.watch import Watch
from proxy.tokens.usage import Usage
from tests.builders import a_turn

pytestmark = pytest.mark.anyio


async def test_a_settled_call_is_counted_and_told_with_its_decisions():
    watch = Watch()
    with watch.feed.watching() as watcher:
        watch.settled(a_turn(turn=4, decisions=("clear read -500: old",), new_edits={"clear": 1}, cost=0.5))
    call, decision = watcher.take()

    assert (call.kind, call.fields["turn"], call.fields["paid"]) == ("call", 4, 0.5)
    assert (decision.kind, decision.fields) == (
        "decision",
        {"session": "s1", "turn": 4, "decision": "clear read -500: old"},
    )
    assert b'pruning_proxy_decisions_total{kind="clear"} 1.0' in watch.metrics.page()


async def test_a_failure_of_ours_is_logged_and_counted_by_its_stage_without_its_words():
    watch = Watch()
    with capture_logs() as logs:
        watch.failed("decide", StoreError("hush"))

    assert logs == [{"event": "failed_open", "stage": "decide", "error": "StoreError", "log_level": "warning"}]
    assert b'pruning_proxy_failed_open_total{stage="decide"} 1.0' in watch.metrics.page()


async def test_each_change_of_the_store_is_one_event():
    watch = Watch()
    with capture_logs() as logs, watch.feed.watching() as watcher:
        watch.store_changed(False, "no answer")
        watch.store_changed(True, "the store is back")

    assert [(event.kind, event.fields["healthy"]) for event in watcher.take()] == [("store", False), ("store", True)]
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("store_lost", "warning"),
        ("store_recovered", "info"),
    ]


async def test_the_stores_health_is_asked_for_when_it_is_wanted():
    watch = Watch()
    assert (watch.store_healthy, watch.store_failures) == (True, 0)

    watch.looks_at_store(lambda: False, lambda: 7)
    assert (watch.store_healthy, watch.store_failures) == (False, 7)
    assert b"pruning_proxy_store_healthy 0.0" in watch.metrics.page()
    assert b"pruning_proxy_store_failures_total 7.0" in watch.metrics.page()


async def test_counting_a_call_takes_microseconds():
    """Ten times the budget of 10 µs, so that a busy machine does not fail it: a lock or a text a call would."""
    watch, turn = Watch(), a_turn(usage=Usage(input_tokens=100), new_edits={"clear": 1}, upstream_ms=3.0, cost=0.1)
    best = 1.0
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(500):
            watch.settled(turn)
        best = min(best, (time.perf_counter() - started) / 500)

    assert best < 100e-6
