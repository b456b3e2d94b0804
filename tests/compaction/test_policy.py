import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compaction.policy import (
    CompactPolicy,
    is_hopeless,
    leaves_time,
    limit_tokens,
    stage_of,
    summary_tokens,
)
from tests.builders import a_context

POLICY = CompactPolicy()


def stage(total, *, policy=POLICY, doubt=0.0, **more):
    known = {"window": 200_000, "reserve": 32_000, "basis": "anchored"}
    return stage_of(a_context(total=total, **{**known, **more}), policy, doubt=doubt)


@pytest.mark.parametrize(("total", "expected"), [(168_000, "background"), (168_001, "now"), (60_000, "none")])
def test_r20_c28_input_and_reserve_may_just_fill_the_window(total, expected):
    assert stage(total) == expected


@pytest.mark.parametrize(("total", "expected"), [(180_000, "background"), (180_001, "now")])
def test_c27_a_share_of_the_window_is_a_limit_of_ones_own(total, expected):
    assert stage(total, policy=CompactPolicy(trigger="share", share=0.9), reserve=0) == expected


@pytest.mark.parametrize(("share", "limit"), [(0.5, 524_288), (1.0, 1_048_576)])
def test_c31_half_of_a_large_window(share, limit):
    context = a_context(window=1_048_576)

    assert limit_tokens(context.usable, CompactPolicy(trigger="share", share=share)) == limit


@pytest.mark.parametrize("more", [{"window": None}, {"policy": CompactPolicy(trigger="off")}])
def test_nothing_is_due_where_the_window_is_unknown_or_nobody_wants_it(more):
    assert stage(10_000_000, **more) == "none"


def test_a_summary_is_begun_before_it_is_needed():
    assert stage(0.84 * 168_000) == "none"
    assert stage(0.86 * 168_000) == "background"
    assert stage(0.86 * 168_000, policy=CompactPolicy(background_share=1.0)) == "none"


def test_where_a_turn_adds_much_it_is_begun_earlier():
    assert stage(120_000, new=30_000) == "background"
    assert stage(120_000, new=1_000) == "none"
    assert stage(80_000, new=100_000) == "none"


def test_no_turn_has_added_more_than_stands_behind_the_last_answer():
    """Where a client changes its history, all of it since then is new to us at each call."""
    context = a_context(window=200_000, reserve=32_000, basis="anchored", total=120_000, new=30_000)

    assert stage_of(context, POLICY) == stage_of(context, POLICY, turn_tokens=30_000) == "background"
    assert stage_of(context, POLICY, turn_tokens=1_000) == "none"


@pytest.mark.parametrize(
    ("total", "more", "found"),
    [
        (151_000, {}, True),
        (152_000, {}, False),
        (150_000, {"new": 9_000}, True),
        (150_000, {"new": 9_001}, False),
        (145_000, {"basis": "estimated"}, False),
        (145_000, {"policy": CompactPolicy(trigger="off")}, False),
        (145_000, {"window": None}, False),
    ],
)
def test_a_summary_may_be_put_off_while_two_more_turns_fit_and_two_thirds_of_the_way_are_left(total, more, found):
    """It is begun at 142,800 tokens; the limit is 168,000."""
    known = {"window": 200_000, "reserve": 32_000, "basis": "anchored", "total": total, **more}
    policy = known.pop("policy", POLICY)

    assert leaves_time(a_context(**known), policy, doubt=0.15) is found


def test_a_pure_estimate_of_a_foreign_tokenizer_is_doubted():
    assert stage(150_000, basis="estimated", doubt=0.15) == "now"
    assert stage(150_000, basis="anchored", doubt=0.15) == "background"


def test_system_and_tools_over_the_limit_are_beyond_help():
    """It passes through once; no loop tries again."""
    context = a_context(total=300_000, system=100_000, tools=90_000, window=200_000, reserve=32_000)

    assert is_hopeless(context, POLICY)
    assert stage_of(context, POLICY) == "none"
    assert not is_hopeless(a_context(window=200_000), POLICY)
    assert not is_hopeless(a_context(system=10**9), POLICY)


@given(st.integers(0, 400_000), st.integers(0, 400_000))
def test_r10_more_tokens_never_make_it_less_urgent(one, other):
    order = ["none", "background", "now"]
    less, more = sorted((one, other))

    assert order.index(stage(less)) <= order.index(stage(more))


@given(st.integers(0, 400_000))
def test_r17_compaction_is_due_exactly_where_the_display_says_overflow(total):
    context = a_context(total=total, window=200_000, reserve=32_000)

    assert (stage_of(context, POLICY) == "now") is context.overflows


@pytest.mark.parametrize(("usable", "expected"), [(200_000, 4_000), (8_000, 1_000), (800, 160)])
def test_a_small_window_gets_a_short_summary(usable, expected):
    assert summary_tokens(POLICY, usable) == expected
