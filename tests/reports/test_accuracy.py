import pytest

from proxy.reports.accuracy import accuracy, growth_error
from proxy.tokens.usage import Usage
from tests.builders import a_turn


def measured(estimated, actual, **more):
    return a_turn(estimated=estimated, usage=Usage(input_tokens=actual), **more)


def test_calls_are_told_apart_by_upstream_model_and_basis():
    turns = [
        measured(101, 100),
        measured(102, 100),
        measured(150, 100, basis="estimated"),
        measured(98, 100, model="other"),
        measured(100, 100, upstream="groq"),
    ]
    rows = accuracy(turns).rows

    assert [(row.upstream, row.model, row.basis, row.calls) for row in rows] == [
        ("openai", "m", "anchored", 2),
        ("groq", "m", "anchored", 1),
        ("openai", "m", "estimated", 1),
        ("openai", "other", "anchored", 1),
    ]
    assert rows[0].total.median == 1.5
    assert rows[2].total.bias == 50.0


def test_over_all_models_there_is_one_row_a_basis():
    turns = [measured(101, 100), measured(97, 100, model="other"), measured(150, 100, basis="estimated")]

    overall = {row.basis: row for row in accuracy(turns).overall}
    assert overall["anchored"].total.bias == -1.0
    assert overall["estimated"].calls == 1


def test_calls_without_a_reported_count_are_counted_and_in_no_figure():
    (row,) = accuracy([measured(100, 100), a_turn(), measured(100, 0)]).rows

    assert (row.calls, row.unreported, row.total.calls) == (3, 2, 1)


def test_the_error_of_the_growth_stands_beside_that_of_the_whole():
    (row,) = accuracy([measured(10_100, 10_000, grown=1_000)]).rows

    assert row.total.median == 1.0
    assert row.growth.median == 10.0


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (measured(110, 100, grown=100), 10.0),
        # Tiny growth counts as 50 tokens.
        (measured(110, 100, grown=2), 20.0),
        (measured(110, 100, grown=-500), 20.0),
        (measured(110, 100), None),
        (a_turn(grown=100), None),
    ],
)
def test_growth_errors_are_relative_to_what_had_to_be_guessed(turn, error):
    assert growth_error(turn) == error


def test_our_own_summary_calls_were_not_estimated():
    assert accuracy([measured(0, 100, purpose="summary")]).rows == ()


def test_what_was_looked_at_is_said():
    found = accuracy([], since=5.0, complete=False)

    assert (found.since, found.complete, found.rows, found.overall) == (5.0, False, (), ())


def test_the_samples_that_corrected_an_estimate_are_counted():
    turns = [measured(1, 1, learned_from=7), measured(1, 1, learned_from=9), measured(1, 1, model="other")]
    found = accuracy(turns)

    assert {row.model: row.learned_from for row in found.rows} == {"m": 9, "other": 0}
    assert [row.learned_from for row in found.overall] == [9]


def test_what_became_of_earlier_reasoning_stands_in_each_row_of_the_model():
    turns = [measured(1, 1), measured(1, 1, basis="estimated"), measured(1, 1, model="other")]
    found = accuracy(turns, treatments={("openai", "m"): "dropped", ("elsewhere", "other"): "kept"})

    assert {(row.model, row.basis): row.reasoning for row in found.rows} == {
        ("m", "anchored"): "dropped",
        ("m", "estimated"): "dropped",
        ("other", "anchored"): "not known yet",
    }
    assert {row.reasoning for row in found.overall} == {None}
