from hypothesis import given
from hypothesis import strategies as st

from proxy.pruning.strategies.cap import cap
from tests.pruning.builders import count

TEXT = "\n".join(f"line {n} of the output" for n in range(1000))


def test_a_text_that_fits_stays():
    assert cap(TEXT, 100, 100, count) is TEXT


def test_head_and_tail_stay_whole_lines_and_the_numbers_are_honest():
    capped = cap(TEXT, count(TEXT), 1000, count)
    head, _, rest = capped.partition("\n[")
    note, _, tail = rest.partition("]\n")

    assert count(capped) <= 1000
    assert TEXT.startswith(head)
    assert TEXT.endswith(tail)
    assert f"{len(TEXT) - len(head) - len(tail):,} of {len(TEXT):,} characters" in note


def test_of_an_error_it_is_not_said_that_nothing_failed():
    of_an_error = cap(TEXT, count(TEXT), 1000, count, is_error=True)

    assert "no failure" in cap(TEXT, count(TEXT), 1000, count)
    assert "no failure" not in of_an_error
    assert "succeeded" not in of_an_error


@given(st.text(min_size=3000, max_size=6000), st.integers(200, 600))
def test_what_stays_is_head_and_tail_of_the_text(text, most):
    capped = cap(text, count(text), most, count)

    assert count(capped) <= most
