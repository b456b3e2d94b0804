import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.context import (
    Last,
    Present,
    context_size,
    error_percent,
    last_output_resent,
    reserve_tokens,
)


def a_present(**fields):
    return Present(**{"system": 0, "tools": 0, "new": 0, **fields})


counts = st.integers(0, 2_000_000)
presents = st.builds(Present, system=counts, tools=counts, new=counts, reasoning=counts, priming=st.integers(0, 3))
lasts = st.builds(
    Last,
    input_tokens=counts,
    output_tokens=counts,
    reasoning_tokens=counts,
    share=st.floats(0, 1),
    reply_sent=st.booleans(),
    reasoning_sent=st.booleans(),
    system=counts,
    tools=counts,
    removed=counts,
    added=counts,
)
windows = st.one_of(st.none(), st.integers(1, 2_000_000))


# The formula and its rows


def test_r1_c1_the_formula_is_last_input_plus_last_output_plus_new():
    size = context_size(a_present(new=20), Last(input_tokens=5000, output_tokens=100))

    assert (size.total, size.basis) == (5120, "anchored")
    assert error_percent(size.total, 5115) == pytest.approx(0.0978, abs=1e-4)


def test_c2_the_next_turn_starts_from_the_newer_actual():
    assert context_size(a_present(new=0), Last(input_tokens=5115, output_tokens=50)).total == 5165


def test_r9_c3_the_display_adds_up_to_the_seeds_example():
    present = a_present(system=4000, tools=8000, new=100)
    last = Last(input_tokens=50_000, output_tokens=2000, system=4000, tools=8000)

    size = context_size(present, last, window=200_000, reserve=16_000)

    assert (size.system, size.tools, size.messages, size.total) == (4000, 8000, 40_100, 52_100)
    assert size.free == 131_900
    assert round(size.percent) == 26


def test_r5_c4_rows_larger_than_the_whole_are_scaled_with_a_warning():
    present = a_present(system=6000, tools=7000)

    size = context_size(present, Last(input_tokens=10_000, system=6000, tools=7000))

    assert (size.system, size.tools, size.messages) == (4615, 5385, 0)
    assert "scaled" in size.warning


def test_r6_without_an_anchor_everything_is_estimated_and_says_so():
    size = context_size(a_present(system=10, tools=20, new=30, priming=3))

    assert (size.total, size.basis, size.last_input) == (63, "estimated", 0)


def test_r7_after_a_compaction_the_estimate_is_pure():
    assert context_size(a_present(system=500, new=1500), None).basis == "estimated"


def test_r8_c52_a_longer_system_text_counts_at_once():
    last = Last(input_tokens=20_000, output_tokens=100, system=2000)

    assert context_size(a_present(system=3000), last).total == 21_100


def test_r8_tools_that_went_away_are_taken_off_at_once():
    last = Last(input_tokens=20_000, output_tokens=100, tools=9000)

    assert context_size(a_present(tools=1000), last).total == 12_100


def test_c26_what_newer_edits_take_out_of_the_anchored_part_is_subtracted():
    last = Last(input_tokens=100_000, output_tokens=500, removed=30_000, added=24)

    assert context_size(a_present(new=100), last).total == 70_624


def test_r3_everything_behind_the_reply_is_new_whoever_said_it():
    size = context_size(a_present(new=7 + 11 + 13), Last(input_tokens=1000, output_tokens=10))

    assert size.new == 31
    assert size.total == 1041


# What of the last output stands in the request


def test_r29_c44_reasoning_that_is_not_sent_back_does_not_count():
    last = Last(input_tokens=10_000, output_tokens=3000, reasoning_tokens=2400)

    assert context_size(a_present(new=20), last).total == 10_620


def test_c44_reasoning_that_is_sent_back_counts():
    last = Last(input_tokens=10_000, output_tokens=3000, reasoning_tokens=2400, reasoning_sent=True)

    assert context_size(a_present(new=20), last).total == 13_020


def test_r11_c45_of_several_answers_only_the_one_that_returned_counts():
    last = Last(input_tokens=1000, output_tokens=300, share=1 / 3)

    assert context_size(a_present(new=5), last).total == 1105


def test_c46_after_a_cut_stream_the_older_anchor_holds_and_the_partial_answer_is_estimated():
    present = a_present(new=10 + 100 + 10, unmeasured=True)

    size = context_size(present, Last(input_tokens=5000, output_tokens=100))

    assert size.total == 5220
    assert "not the one whose usage was reported" in size.warning


def test_c38_reasoning_counted_beside_the_candidates_is_part_of_the_normal_form():
    """Gemini: 1,000 prompt, 50 candidates and 400 thoughts; normalised output is 450."""
    last = Last(input_tokens=1000, output_tokens=450, reasoning_tokens=400)

    assert context_size(a_present(new=30), last).total == 1080


def test_more_reasoning_than_output_leaves_nothing_rather_than_less():
    assert last_output_resent(Last(input_tokens=1, output_tokens=10, reasoning_tokens=90)) == 0


def test_a_retry_does_not_carry_the_answer_it_repeats():
    assert context_size(a_present(), Last(input_tokens=700, output_tokens=90, reply_sent=False)).total == 700


@pytest.mark.parametrize(("included", "expected"), [(0, 100_000), (50_000, 150_000)])
def test_r16_r30_c32_the_shown_number_is_what_is_really_sent(included, expected):
    size = context_size(a_present(new=100_000 + included, reasoning=included))

    assert (size.total, size.reasoning) == (expected, included)


def test_r31_c33_no_overflow_while_the_effective_number_fits():
    size = context_size(a_present(new=100_000), window=150_000)

    assert not size.overflows


@pytest.mark.parametrize(("kept", "expected"), [((100, 200), 1300), ((200,), 1200), ((), 1000)])
def test_r32_r33_c34_reasoning_counts_exactly_where_the_body_carries_it(kept, expected):
    assert context_size(a_present(new=1000 + sum(kept), reasoning=sum(kept))).total == expected


# Window, reserve, triggers


def test_r20_c28_input_may_fill_the_window_less_the_capped_reserve():
    reserve = reserve_tokens(None, 64_000, 200_000)

    assert reserve == 32_000
    assert not context_size(a_present(new=168_000), window=200_000, reserve=reserve).overflows
    assert context_size(a_present(new=168_001), window=200_000, reserve=reserve).overflows


@pytest.mark.parametrize(
    ("requested", "model_max", "window", "expected"),
    [
        (16_000, 64_000, 200_000, 16_000),
        (64_000, 64_000, 200_000, 64_000),
        (None, 8192, 128_000, 8192),
        (None, None, 128_000, 32_000),
        (None, None, None, 32_000),
        (500_000, None, None, 500_000),
        # At most half of the window.
        (200_000, None, 128_000, 64_000),
        (None, None, 32_000, 16_000),
        (0, None, 200_000, 32_000),
    ],
)
def test_the_reserve_is_the_requests_own_limit_else_the_models_and_at_most_half(requested, model_max, window, expected):
    assert reserve_tokens(requested, model_max, window) == expected


def test_an_input_limit_below_the_window_decides():
    size = context_size(a_present(new=280_000), window=400_000, reserve=32_000, max_input=272_000)

    assert (size.usable, size.free, size.overflows) == (272_000, -8000, True)


def test_r37_the_percentage_is_of_the_whole_window():
    assert context_size(a_present(new=50_000), window=200_000, reserve=100_000).percent == 25.0


def test_an_unknown_window_overflows_never_and_has_no_percentage():
    size = context_size(a_present(new=10_000_000))

    assert (size.overflows, size.percent, size.free) == (False, None, None)


# Errors of estimates


@pytest.mark.parametrize(
    ("estimated", "actual", "expected"),
    [(5120, 5115, "+0.1"), (73_000, 122_400, "-40.4"), (100, 100, "+0.0")],
)
def test_r4_c5_c7_the_error_is_signed_and_a_share_of_the_actual(estimated, actual, expected):
    assert f"{error_percent(estimated, actual):+.1f}" == expected


@pytest.mark.parametrize("actual", [0, None])
def test_c6_without_an_actual_there_is_no_error(actual):
    assert error_percent(100, actual) is None


# Properties


@given(present=presents, last=st.one_of(st.none(), lasts), window=windows, reserve=counts)
def test_r17_rows_always_add_up_and_are_never_negative(present, last, window, reserve):
    size = context_size(present, last, window=window, reserve=reserve)

    assert size.system + size.tools + size.messages == size.total
    assert min(size.system, size.tools, size.messages, size.total) >= 0
    assert size.reasoning <= size.messages


@given(present=presents, last=lasts)
def test_the_addends_give_the_total(present, last):
    size = context_size(present, last)

    assert size.last_input + size.last_output_resent + size.new + size.corrections == size.total


@given(present=presents, last=st.one_of(st.none(), lasts), window=st.integers(1, 2_000_000), reserve=counts)
def test_r10_free_space_and_the_trigger_tell_the_same(present, last, window, reserve):
    size = context_size(present, last, window=window, reserve=reserve)

    assert size.overflows == (size.free < 0)
    assert size.free == window - reserve - size.total


@given(st.one_of(st.none(), st.integers(-5, 10**7)), st.one_of(st.none(), st.integers(1, 10**6)), st.integers(1, 10**7))
def test_the_reserve_is_never_more_than_half_the_window(requested, model_max, window):
    assert 0 <= reserve_tokens(requested, model_max, window) <= window // 2
