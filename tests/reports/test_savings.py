import pytest

from proxy.reports.savings import bill, savings
from proxy.tokens.usage import Usage
from tests.builders import a_turn

DAY = 86_400.0


def paid(cost, unpruned=None, **more):
    return a_turn(cost=cost, cost_unpruned=cost if unpruned is None else unpruned, **more)


def a_summary_call(cost, session="s1", **more):
    return a_turn(session=session, turn=0, purpose="summary", cost=cost, **more)


def test_saved_is_what_would_have_been_paid_less_what_was_paid():
    total = savings([paid(1.0, 3.0), paid(0.5, 1.0)]).total

    assert (total.paid, total.unpruned, total.saved, total.saved_percent) == (1.5, 4.0, 2.5, 62.5)


def test_summary_calls_are_charged():
    total = savings([paid(1.0, 3.0), a_summary_call(0.5)]).total

    assert (total.calls, total.summary_calls, total.summaries, total.saved) == (1, 1, 0.5, 1.5)


def test_a_loss_is_shown_as_one():
    total = savings([paid(2.0, 1.0), a_summary_call(1.0)]).total

    assert (total.saved, total.saved_percent) == (-2.0, -200.0)


def test_calls_without_a_price_are_in_no_sum_of_money():
    total = savings([paid(1.0, 2.0), a_turn(removed_tokens=7)]).total

    assert (total.calls, total.priced, total.saved, total.removed_tokens) == (2, 1, 1.0, 7)


def test_nothing_paid_is_no_percentage():
    assert savings([]).total.saved_percent is None


def test_a_call_that_was_not_simulated_saved_nothing():
    assert savings([a_turn(cost=1.0)]).total.saved == 0.0


def test_tokens_are_summed_as_reported():
    usage = Usage(input_tokens=100, cache_read_tokens=60, output_tokens=9)
    sums = bill([a_turn(usage=usage, removed_tokens=5), a_turn(would_remove_tokens=3)])

    assert (sums.input_tokens, sums.cache_read_tokens, sums.output_tokens, sums.removed_tokens) == (100, 60, 9, 5)
    assert (sums.would_remove_tokens, sums.saved) == (3, 0.0)


@pytest.mark.parametrize(
    ("limits", "too_long"),
    [({"window": 999}, 1), ({"window": 1000}, 0), ({"window": 2000, "max_input": 999}, 1), ({}, 0)],
)
def test_calls_that_would_not_have_fitted_the_window_are_counted(limits, too_long):
    pruned = a_turn(usage=Usage(input_tokens=400), removed_tokens=600, **limits)
    untouched = a_turn(usage=Usage(input_tokens=5000), **limits)

    assert bill([pruned, untouched]).too_long == too_long


def test_a_refused_call_spared_no_tokens():
    refused = a_turn(outcome="error", status=429, removed_tokens=600, would_remove_tokens=5, window=599)
    sums = bill([refused, refused, a_turn(usage=Usage(input_tokens=400), removed_tokens=600)])

    assert (sums.calls, sums.removed_tokens, sums.would_remove_tokens, sums.too_long) == (3, 600, 0, 0)


def test_there_is_a_line_for_each_day_model_and_session():
    turns = [
        paid(1.0, 2.0, at=DAY, session="a", label="mine"),
        paid(3.0, 3.0, at=2 * DAY, session="b", model="large"),
        a_summary_call(0.5, session="b", at=2 * DAY + 5, model="small"),
    ]
    found = savings(turns)

    assert [(line.key, line.bill.saved) for line in found.by_day] == [("1970-01-02", 1.0), ("1970-01-03", -0.5)]
    assert [line.key for line in found.by_model] == ["openai/large", "openai/m", "openai/small"]
    assert {line.label for line in (*found.by_day, *found.by_model)} == {""}
    assert [(line.key, line.label, line.bill.saved) for line in found.by_session] == [
        ("b", "", -0.5),
        ("a", "mine", 1.0),
    ]


def test_lines_of_a_breakdown_add_up_to_the_total():
    turns = [paid(0.1 * n, 0.2 * n, session=f"s{n % 3}", model=f"m{n % 2}", at=n * DAY / 3) for n in range(9)]
    turns.append(a_summary_call(0.05))
    found = savings(turns)

    for lines in (found.by_day, found.by_model, found.by_session):
        assert sum(line.bill.saved for line in lines) == pytest.approx(found.total.saved)


def test_only_so_many_sessions_are_listed():
    assert len(savings([paid(1.0, session=f"s{n}") for n in range(9)], most_sessions=4).by_session) == 4


def test_held_out_conversations_stand_beside_the_treated():
    usage = Usage(input_tokens=100)
    turns = [
        paid(1.0, 2.0, session="a", usage=usage),
        a_summary_call(0.5, session="a"),
        paid(4.0, session="b", skipped="held_out", usage=usage),
        # Its later calls belong to the same arm, whatever they say.
        paid(2.0, session="b", usage=usage),
    ]
    arms = savings(turns).holdout

    assert (arms.treated.sessions, arms.treated.paid_per_call, arms.treated.input_per_call) == (1, 1.5, 100)
    assert (arms.held_out.sessions, arms.held_out.paid_per_call, arms.held_out.bill.calls) == (1, 3.0, 2)


def test_without_held_out_conversations_there_is_nothing_to_compare():
    assert savings([paid(1.0)]).holdout is None


def test_an_arm_without_prices_has_no_price():
    arms = savings([a_turn(session="b", skipped="held_out")]).holdout

    assert (arms.treated.paid_per_call, arms.treated.input_per_call, arms.held_out.paid_per_call) == (None, None, None)
