import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.pruning.horizon import LONGEST, expected_turns


@pytest.mark.parametrize(("now", "expected"), [(0, 0), (1, 1), (30, 30), (500, LONGEST)])
def test_without_experience_a_conversation_lasts_as_long_again(now, expected):
    assert expected_turns((), now) == expected


def test_long_conversations_of_the_past_lengthen_the_horizon_and_finished_ones_say_nothing():
    assert expected_turns([100] * 50, 10) > 40
    assert expected_turns([5] * 50, 10) == 10


def test_a_ledger_full_of_short_conversations_shortens_it():
    assert expected_turns([32] * 90, 30) < 5


@given(st.lists(st.integers(1, 2000), max_size=50), st.integers(0, 2000))
def test_it_is_never_negative_and_never_beyond_the_longest(lengths, now):
    assert 0 <= expected_turns(lengths, now) <= LONGEST
