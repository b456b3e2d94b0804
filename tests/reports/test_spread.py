from hypothesis import given
from hypothesis import strategies as st

from proxy.reports.spread import BOUNDS, spread

errors = st.lists(st.floats(-1000, 1000), max_size=40)


def test_signed_errors_are_summed_up():
    found = spread([-1.0, 3.0, -2.0, 4.0])

    assert (found.calls, found.median, found.max, found.bias) == (4, 2.5, 4.0, 1.0)
    assert found.p95 == 3.85


def test_of_nothing_nothing_is_known():
    found = spread([])

    assert (found.calls, found.median, found.p95, found.max, found.bias) == (0, None, None, None, None)
    assert set(found.histogram) == {0}


def test_no_error_lies_in_the_middle_bucket():
    histogram = spread([0.0]).histogram

    assert BOUNDS[histogram.index(1)] == 0.1
    assert BOUNDS[histogram.index(1) - 1] == -0.1


def test_what_is_far_too_high_lies_in_the_last_bucket():
    assert spread([200.0]).histogram[-1] == 1


@given(errors)
def test_each_error_is_in_exactly_one_bucket(found):
    assert sum(spread(found).histogram) == len(found)


@given(errors.filter(bool))
def test_figures_are_in_order(found):
    sums = spread(found)

    assert 0 <= sums.median <= sums.p95 <= sums.max
    assert abs(sums.bias) <= sums.max + 0.001
