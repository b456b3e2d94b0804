import pytest

from proxy.tokens.fit import Growth
from proxy.tokens.learn import NOTHING_LEARNED, Sample, decode, encode, update
from proxy.tokens.treatment import treatment


def taught(kept, *, calls=30, reasoning=400):
    """What is learned from a provider in whose next input `kept` of the answer's reasoning is more than assumed."""
    state = NOTHING_LEARNED
    for number in range(calls):
        thought = reasoning + number % 7 * reasoning // 2
        growth = Growth(3000 + number * 37 % 5 * 900, 2 + number % 3, 1 + number % 2, thought)
        state = update(state, Sample(growth=growth, actual=growth.tokens + round(kept * thought), anchored=True))
    return state


@pytest.mark.parametrize(("kept", "word"), [(1, "kept"), (-1, "dropped"), (0, "as sent")])
def test_each_treatment_is_found_in_the_counts(kept, word):
    assert treatment(taught(kept)) == word


@pytest.mark.parametrize("kept", [1, -1, 0])
def test_it_is_found_in_the_stored_form_too(kept):
    state = taught(kept)

    assert treatment(decode(encode(state))) == treatment(state)


def test_nothing_is_said_before_enough_calls_have_followed_an_answer_with_reasoning():
    assert treatment(NOTHING_LEARNED) == "not known yet"
    assert treatment(taught(1, calls=7)) == "not known yet"
    assert treatment(taught(0, calls=8)) == "as sent"


def test_answers_without_reasoning_say_nothing_about_it():
    assert treatment(taught(0, reasoning=0)) == "not known yet"
    assert treatment(taught(0, reasoning=10)) == "not known yet"
