from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.tokens.fit import Growth
from proxy.tokens.learn import (
    KEPT,
    NOTHING_LEARNED,
    Learned,
    Sample,
    decode,
    encode,
    first_tokens,
    is_usable,
    learned_name,
    merged,
    predict,
    predict_first,
    update,
)


def taught(actual, calls=20, *, anchored=True, state=NOTHING_LEARNED, seed=1, sizes=(50, 9000)):
    """What is known after so many calls whose actual growth is `actual(growth)`."""
    chance = Random(seed)
    for _ in range(calls):
        results = chance.randint(0, 4)
        growth = Growth(
            chance.randint(*sizes), results + chance.randint(1, 2), results, chance.choice([0, 0, 800, 2400])
        )
        state = update(state, Sample(growth=growth, actual=round(actual(growth)), anchored=anchored))
    return state


def off(state, growth, actual):
    return abs(predict(state, growth).tokens - actual) / actual


PROBE = Growth(3000, 3, 2, 1000)


# Nothing known


def test_before_anything_is_learned_the_estimate_stands_with_a_wide_range():
    predicted = predict(NOTHING_LEARNED, Growth(1000, 2))

    assert predicted.tokens == 1000
    assert predicted.low < 900
    assert predicted.high > 1300


def test_the_range_narrows_from_there_call_by_call():
    ranges = [taught(lambda growth: growth.tokens, calls).range for calls in (0, 2, 5, 9, 12)]
    lows, highs = zip(*ranges, strict=True)

    assert lows == tuple(sorted(lows))
    assert highs == tuple(sorted(highs, reverse=True))
    assert ranges[-1] == (1.0, 1.0)


# Growth


def test_a_known_tokenizer_stays_exactly_as_it_is():
    state = taught(lambda growth: growth.tokens)

    assert state.coefficients == (1.0, 0.0, 0.0, 0.0)
    assert predict(state, PROBE).low == predict(state, PROBE).high == PROBE.tokens


@pytest.mark.parametrize("density", [0.7, 1.1, 1.3, 1.8])
def test_r14_a_denser_tokenizer_is_learned_within_ten_calls(density):
    state = taught(lambda growth: density * growth.tokens, calls=10)

    assert state.factor == pytest.approx(density, rel=0.01)
    assert off(state, PROBE, density * PROBE.tokens) < 0.01


def test_the_first_call_already_helps():
    state = taught(lambda growth: 1.4 * growth.tokens, calls=1, sizes=(4000, 4000))

    assert 1.25 < state.factor <= 1.4


@pytest.mark.parametrize("density", [0.2, 3.5])
def test_r14_the_factor_is_clamped(density):
    state = taught(lambda growth: density * growth.tokens + growth.tokens * 0.06, calls=30)

    assert 0.5 <= state.factor <= 2.0


def test_seven_tokens_more_a_message_are_found():
    state = taught(lambda growth: growth.tokens + 7 * growth.messages)

    assert off(state, Growth(60, 4, 3), 88) < 0.02
    assert off(state, PROBE, 3021) < 0.005


def test_density_and_envelopes_are_told_apart():
    state = taught(lambda growth: 1.2 * growth.tokens + 5 * growth.messages + 9 * growth.results, calls=40)

    assert state.factor == pytest.approx(1.2, abs=0.01)
    assert off(state, Growth(60, 4, 3), 72 + 20 + 27) < 0.05


def test_a_provider_that_keeps_reasoning_is_found_out():
    """The request did not carry the reasoning, yet it stands in the next input."""
    state = taught(lambda growth: growth.tokens + growth.reasoning, calls=30)

    assert off(state, Growth(500, 2, 1, 2400), 2900) < 0.03


def test_a_provider_that_drops_reasoning_is_found_out():
    state = taught(lambda growth: growth.tokens - growth.reasoning, calls=30, sizes=(3000, 9000))

    assert off(state, Growth(5000, 2, 1, 2400), 2600) < 0.03


def test_code_that_is_denser_than_prose_is_met_in_the_middle_and_the_range_says_so():
    chance = Random(3)
    state = taught(lambda growth: growth.tokens * chance.choice([1.0, 1.3]), calls=40)
    predicted = predict(state, Growth(3000, 2))

    assert predicted.low <= 3050
    assert predicted.high >= 3850


@pytest.mark.parametrize("wild", [0, 5, 40_000, 10_000_000])
def test_outliers_do_not_move_it(wild):
    chance = Random(5)

    state = taught(lambda growth: wild if chance.random() < 0.15 else 1.1 * growth.tokens, calls=60)

    assert state.factor == pytest.approx(1.1, rel=0.02)


def test_what_cannot_be_right_is_counted_as_rejected():
    state = update(NOTHING_LEARNED, Sample(growth=Growth(5000, 1), actual=9_000_000, anchored=True))

    assert (state.samples, state.rejected) == (0, 1)


def test_a_provider_that_reports_running_totals_teaches_nothing():
    """Each count holds all inputs before it; the first few look like very dense text."""
    state, context = NOTHING_LEARNED, 600
    for _ in range(60):
        state = update(state, Sample(growth=Growth(300, 2, 1), actual=context + 300, anchored=True))
        context += 300

    assert 0 < state.samples < state.rejected
    assert predict(state, PROBE).tokens == PROBE.tokens


def test_it_is_believed_again_when_its_counts_have_been_right_for_as_long():
    state = NOTHING_LEARNED
    for _ in range(5):
        state = update(state, Sample(growth=Growth(5000, 1), actual=9_000_000, anchored=True))
    state = taught(lambda growth: 1.3 * growth.tokens, calls=6, state=state)

    assert state.factor == pytest.approx(1.3, rel=0.02)


def test_a_change_at_the_provider_is_followed():
    before = taught(lambda growth: growth.tokens, calls=100)

    after = taught(lambda growth: 1.3 * growth.tokens, calls=KEPT + 32, state=before)

    assert after.factor == pytest.approx(1.3, rel=0.01)


# What must not teach


@pytest.mark.parametrize(
    "trouble",
    [{"complete": False}, {"possible": False}, {"server_edits": True}, {"media": True}, {"edited": True}],
)
def test_r14_troubled_calls_are_not_usable(trouble):
    fine = {"complete": True, "possible": True, "server_edits": False, "media": False, "edited": False}

    assert is_usable(**fine)
    assert not is_usable(**{**fine, **trouble})


@pytest.mark.parametrize(
    "sample",
    [
        Sample(growth=Growth(100, 1), actual=200, anchored=True, usable=False),
        Sample(growth=Growth(0, 1), actual=200, anchored=True),
    ],
)
def test_unusable_and_empty_samples_change_nothing(sample):
    assert update(NOTHING_LEARNED, sample) is NOTHING_LEARNED


# First calls


def test_a_hidden_preamble_is_learned_from_first_calls():
    state = taught(lambda growth: growth.tokens + 900, calls=6, anchored=False, sizes=(200, 20_000))

    assert predict_first(state, Growth(3000, 2)).tokens == pytest.approx(3900, rel=0.01)
    assert predict_first(state, Growth(100, 2)).tokens == pytest.approx(1000, rel=0.02)


def test_a_denser_tokenizer_shows_in_first_calls_too():
    state = taught(lambda growth: 1.3 * growth.tokens, calls=6, anchored=False, sizes=(200, 20_000))

    assert predict_first(state, Growth(10_000, 2)).tokens == pytest.approx(13_000, rel=0.01)


def test_growth_and_first_calls_together_tell_density_from_preamble():
    state = taught(lambda growth: 1.3 * growth.tokens, calls=20)
    state = taught(lambda growth: 1.3 * growth.tokens + 500, calls=3, anchored=False, state=state)

    assert predict_first(state, Growth(10_000, 1)).tokens == pytest.approx(13_500, rel=0.02)
    assert predict_first(state, Growth(100, 1)).tokens == pytest.approx(630, rel=0.1)


def test_one_first_call_is_taken_for_density_not_for_a_huge_preamble():
    state = update(NOTHING_LEARNED, Sample(growth=Growth(50_000, 9), actual=65_000, anchored=False))

    assert predict_first(state, Growth(100, 1)).tokens == 130


def test_a_first_call_far_below_its_estimate_is_rejected():
    state = update(NOTHING_LEARNED, Sample(growth=Growth(50_000, 9), actual=3, anchored=False))

    assert state.rejected == 1


# By several replicas


def numbered(state):
    return [one.number for one in state.recent]


def test_two_replicas_know_the_newest_samples_of_both():
    shared = taught(lambda growth: growth.tokens, calls=10)
    ours = taught(lambda growth: 1.3 * growth.tokens, calls=30, state=shared, seed=2)
    theirs = taught(lambda growth: 1.3 * growth.tokens, calls=30, state=shared, seed=3)
    both = merged(ours, theirs, 30)

    assert both.samples == 70
    assert len(both.recent) == KEPT
    assert set(both.recent) <= {*ours.recent, *theirs.recent}
    assert numbered(both) == sorted(numbered(both))
    assert min(numbered(both)) > 10
    assert both.factor == pytest.approx(1.3, rel=0.01)


def test_merging_again_and_in_any_order_comes_to_the_same():
    ours = taught(lambda growth: 1.2 * growth.tokens, calls=20)
    theirs = taught(lambda growth: 1.2 * growth.tokens + 90, calls=3, anchored=False, seed=4)
    both = merged(ours, theirs, 0)

    assert merged(both, theirs, 0) == merged(both, ours, 0) == both
    assert set(merged(theirs, ours, 0).recent) == set(both.recent)
    assert merged(theirs, ours, 0).coefficients == both.coefficients
    assert both.recent_first == theirs.recent_first


@pytest.mark.parametrize("state", [NOTHING_LEARNED, taught(lambda growth: 1.2 * growth.tokens)])
def test_alone_or_after_a_loss_of_the_store_nothing_changes(state):
    assert merged(state, NOTHING_LEARNED, 0) == state
    assert merged(state, state, 0) == state


def test_what_an_older_version_stored_is_read():
    one = [[1000, 2, 1, 0], 1300]

    state = decode(msgspec.msgpack.encode({"samples": 1, "recent": [one]}))

    assert (state.recent[0].actual, state.recent[0].number) == (1300, 0)


# As a stored value


def test_the_state_survives_storage():
    state = taught(lambda growth: 1.2 * growth.tokens)

    assert decode(encode(state)) == state


def test_the_stored_state_is_small():
    assert len(encode(taught(lambda growth: 1.2 * growth.tokens, calls=500))) < 2000


@pytest.mark.parametrize("stored", [None, b"", b"\xff", msgspec.msgpack.encode({"coefficients": "no"})])
def test_nothing_or_another_version_is_nothing_learned(stored):
    assert decode(stored) == NOTHING_LEARNED


def test_each_upstream_model_and_encoding_has_its_own():
    names = {learned_name(*key) for key in (("a", "m", "e"), ("b", "m", "e"), ("a", "n", "e"), ("a", "m", "f"))}

    assert len(names) == 4


samples = st.builds(
    Sample,
    growth=st.builds(Growth, st.integers(-5, 10**7), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 10**6)),
    actual=st.integers(-(10**7), 10**8),
    anchored=st.booleans(),
    usable=st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(samples, max_size=40))
def test_whatever_comes_the_state_stays_bounded(found):
    state = NOTHING_LEARNED
    for sample in found:
        state = update(state, sample)
    predicted = predict(state, PROBE)

    assert isinstance(state, Learned)
    assert 0.5 <= state.factor <= 2.0
    assert 0 <= predicted.low <= predicted.high
    assert predict_first(state, PROBE).tokens == first_tokens(state, PROBE) >= 0


def test_what_becomes_of_earlier_turns_reasoning_follows_the_newest_counts_and_teaches_no_density():
    state = NOTHING_LEARNED
    seen = []
    for share in (1.0, 1.0, 0.0, 0.0):
        state = update(
            state, Sample(growth=Growth(1000, 2, 1), actual=9000, anchored=True, usable=True, turns_dropped=share)
        )
        seen.append(state.turns_dropped)

    assert seen == [1.0, 1.0, 0.5, 0.25]
    assert (state.samples, state.coefficients) == (4, NOTHING_LEARNED.coefficients)
    assert merged(NOTHING_LEARNED, state, 0).turns_dropped == merged(state, NOTHING_LEARNED, 4).turns_dropped == 0.25
