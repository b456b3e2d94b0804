"""What a race came to."""

import pytest

from proxy.demo.outcome import as_json, outcome_of, rank
from proxy.demo.play import Heard
from proxy.demo.race import Bill, Step
from proxy.ledger.records import Turn


def heard(tokens=100, *, estimated=None, basis="anchored", said="yes"):
    headers = {"x-context-basis": basis}
    if estimated is not None:
        headers["x-context-estimated-input-tokens"] = str(estimated)
    message = None if said is None else {"role": "assistant", "content": said}
    return Heard(status=200 if said else 400, headers=headers, input_tokens=tokens if said else 0, said=message)


def a_step(direct=None, pruned=None, number=1):
    return Step(number=number, of=1, direct=direct or heard(), pruned=pruned or heard(estimated=101))


def a_bill(tokens=1000, cached=0, dollars=1.0):
    return Bill(calls=1, input_tokens=tokens, cached_tokens=cached, output_tokens=0, dollars=dollars)


def a_row(**fields):
    common = {"session": "s", "turn": 1, "at": 0.0, "upstream": "openai", "model": "m", "dialect": "openai_chat"}
    return Turn(**common, basis="anchored", estimated=1, **fields)


def test_savings_are_the_difference_of_two_bills():
    result = outcome_of([a_step()], [], a_bill(1000, 500, 2.0), a_bill(600, 150, 1.5))

    assert (result.saved_tokens, result.saved_tokens_percent) == (400, 40.0)
    assert (result.saved_dollars, result.saved_dollars_percent) == (0.5, 25.0)
    assert (result.cached_direct_percent, result.cached_pruned_percent) == (50.0, 25.0)


def test_a_dearer_run_is_a_negative_saving():
    assert outcome_of([a_step()], [], a_bill(dollars=1.0), a_bill(dollars=1.2)).saved_dollars == -0.2


def test_only_anchored_estimates_are_judged():
    steps = [a_step(pruned=heard(estimated=104)), a_step(pruned=heard(estimated=150, basis="estimated"))]
    result = outcome_of(steps, [], a_bill(), a_bill())

    assert (result.anchored_turns, result.error_max_percent) == (1, 4.0)


def test_without_an_anchored_turn_there_is_no_error():
    assert outcome_of([], [], a_bill(0, 0, 0.0), a_bill(0, 0, 0.0)).error_median_percent is None


def test_edits_and_failures_are_counted_over_the_rows():
    rows = [a_row(new_edits={"clear": 3}), a_row(new_edits={"clear": 1, "repeat": 9}, failed_open="prepare")]
    result = outcome_of([a_step()], rows, a_bill(), a_bill())

    assert result.edits == {"repeat": 9, "clear": 4}
    assert result.failed_open == 1


def test_lost_and_changed_answers_are_told_apart():
    steps = [
        a_step(pruned=heard(said=None)),
        a_step(pruned=heard(said="no")),
        a_step(direct=heard(said=None)),
    ]
    result = outcome_of(steps, [], a_bill(), a_bill())

    assert (result.refused_pruned, result.different_answers, result.refused_direct) == (1, 1, 1)


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.95, 10), (1.0, 10), (0.1, 1)])
def test_a_rank_is_the_nearest_value(share, value):
    assert rank(list(range(1, 11)), share) == value


def test_nothing_has_no_rank():
    assert rank([], 0.5) is None


def test_a_turn_as_json_has_null_for_what_was_not_told():
    told = as_json(a_step(direct=heard(said=None), pruned=heard(estimated=101)))

    assert told["input_direct"] is None
    assert told["error_percent"] == 1.0
