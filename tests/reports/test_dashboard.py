import pytest

from proxy.reports.dashboard import MOST_STEPS, STEPS_S, Machine, dashboard, is_failure, width
from tests.builders import a_turn

MACHINE = Machine(addresses=3, store="redis", store_healthy=False, store_failures=2, open_calls=1, version="1.2.3")


def test_without_calls_there_is_only_the_machine():
    report = dashboard([], MACHINE, since=5.0)

    assert (report.steps, report.upstreams, report.since) == ((), (), 5.0)
    assert (report.addresses, report.store, report.store_healthy, report.store_failures) == (3, "redis", False, 2)
    assert (report.open_calls, report.version) == (1, "1.2.3")


def test_savings_are_summed_by_step_and_so_far_and_may_be_losses():
    turns = [
        a_turn(at=100.2, cost=2.0, cost_unpruned=1.0),
        a_turn(at=100.9, cost=1.0, cost_unpruned=1.5),
        a_turn(at=103.0, purpose="summary", turn=0, cost=0.25),
        a_turn(at=104.0, cost=1.0, cost_unpruned=4.0),
    ]
    report = dashboard(reversed(turns), MACHINE)

    assert report.step_s == 1
    assert [(step.at, step.bill.saved, step.saved_so_far) for step in report.steps] == [
        (100.0, -0.5, -0.5),
        (103.0, -0.25, -0.75),
        (104.0, 3.0, 2.25),
    ]


@pytest.mark.parametrize("span_s", [0, 1, 59, 61, 3600, 86_400, 7 * 86_400, 50 * 86_400])
def test_a_span_is_cut_into_few_steps(span_s):
    step_s = width(span_s)

    assert span_s / step_s <= MOST_STEPS
    assert step_s == STEPS_S[0] or span_s / STEPS_S[STEPS_S.index(step_s) - 1] > MOST_STEPS


def test_a_very_long_span_has_the_widest_steps():
    assert width(1e9) == STEPS_S[-1]


def test_an_upstream_is_as_good_as_its_newest_call():
    turns = [
        a_turn(at=1.0, upstream="a", upstream_ms=10.0, overhead_ms=1.0),
        a_turn(
            at=3.0, upstream="a", outcome="error", status=503, upstream_ms=30.0, overhead_ms=3.0, failed_open="store"
        ),
        a_turn(at=2.0, upstream="a", upstream_ms=20.0),
        a_turn(at=4.0, upstream="b", status=0, outcome="client_closed"),
    ]
    first, second = dashboard(turns, MACHINE).upstreams

    assert (first.upstream, first.state, first.calls) == ("a", "failing", 3)
    assert (first.outcomes, first.failed_open) == ({"ok": 2, "error": 1}, 1)
    assert (first.last_at, first.last_outcome, first.last_status) == (3.0, "error", 503)
    assert (first.head_ms, first.overhead_ms) == (20.0, 2.0)
    assert (second.upstream, second.state, second.last_status) == ("b", "good", None)
    assert (second.head_ms, second.overhead_ms) == (None, None)


@pytest.mark.parametrize(
    ("outcome", "status", "failed"),
    [
        ("ok", 200, False),
        ("blocked", 200, False),
        ("client_closed", 200, False),
        ("truncated", 200, True),
        ("error", 200, True),
        ("error", 400, False),
        ("error", 401, False),
        ("error", 408, True),
        ("error", 429, True),
        ("error", 502, True),
        ("error", 0, True),
    ],
)
def test_what_an_upstream_is_to_blame_for(outcome, status, failed):
    assert is_failure(a_turn(outcome=outcome, status=status)) is failed
