from random import Random

import pytest

from proxy.tokens.fit import IDENTITY, Growth, Observed, fitted, linear, median, sizes_of

PROBE = Growth(40_000, 3, 2)


def seen(actual, calls, *, seed=1, sizes=(20, 3000)):
    """So many calls of a provider that counts `actual(growth, chance)`."""
    chance = Random(seed)
    found = []
    for _ in range(calls):
        results = chance.randint(0, 3)
        growth = Growth(chance.randint(*sizes), results + chance.randint(1, 2), results)
        found.append(Observed(growth, round(actual(growth, chance))))
    return found


def code_or_prose(growth, chance):
    return growth.tokens * chance.choice([1.0, 1.0, 1.3])


PROVIDERS = {
    "7 more a message": lambda growth, chance: growth.tokens + 7 * growth.messages,
    "3 fewer a message": lambda growth, chance: growth.tokens - 3 * growth.messages,
    "9 more a result": lambda growth, chance: growth.tokens + 9 * growth.results,
    "12 % denser": lambda growth, chance: 1.12 * growth.tokens,
    "30 % denser": lambda growth, chance: 1.3 * growth.tokens,
    "8 % denser, 4 more a message": lambda growth, chance: 1.08 * growth.tokens + 4 * growth.messages,
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("provider", PROVIDERS)
def test_three_calls_are_enough_to_carry_over_to_a_large_one(provider, seed):
    actual = PROVIDERS[provider]

    found = fitted(seen(actual, 3, seed=seed), [])

    assert abs(linear(found, PROBE) - actual(PROBE, None)) / actual(PROBE, None) < 0.02


@pytest.mark.parametrize("provider", ["7 more a message", "3 fewer a message"])
def test_one_small_call_is_explained_by_its_envelope_not_by_a_wild_density(provider):
    actual = PROVIDERS[provider]
    growth = Growth(18, 2, 1)

    found = fitted([Observed(growth, actual(growth, None))], [])

    assert found[0] == 1.0
    assert abs(linear(found, PROBE) - actual(PROBE, None)) < 10


def test_one_large_call_is_explained_by_density():
    found = fitted([Observed(Growth(3000, 2, 1), 3900)], [])

    assert found[0] == pytest.approx(1.3, abs=0.01)
    assert found[1:] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("first_actual", "factor"), [(520, 1.3), (400, 1.0)])
def test_a_first_call_tells_what_a_small_call_leaves_open(first_actual, factor):
    """78 for an estimated 60: 30 % more, or 9 more a message."""
    first = [Observed(Growth(400, 1), first_actual)]

    found = fitted([Observed(Growth(60, 2, 1), 78)], first)

    assert found[0] == pytest.approx(factor, abs=0.02)


def test_what_first_calls_hide_changes_nothing_where_the_estimate_is_right():
    first = [Observed(Growth(3000, 2), 3900)]

    assert fitted(seen(lambda growth, chance: growth.tokens, 4), first) == IDENTITY


def test_code_that_is_denser_than_prose_leaves_the_more_frequent_kind_exact():
    assert fitted(seen(code_or_prose, 48, seed=2), []) == IDENTITY


@pytest.mark.parametrize("seed", range(8))
def test_the_noise_of_a_provider_that_is_one_percent_off_teaches_no_wild_density(seed):
    """Of an input of 40,000 tokens: up to four hundred in each growth, either way."""

    def noisy(growth, chance):
        return growth.tokens + 40_000 * (chance.uniform(-0.01, 0.01) - chance.uniform(-0.01, 0.01))

    found = fitted(seen(noisy, 48, seed=seed, sizes=(200, 3000)), [])

    assert abs(found[0] - 1.0) < 0.1


def test_reasoning_that_is_kept_needs_more_samples_and_is_found():
    calls = [
        Observed(Growth(500 + 90 * number, 2, 1, 300 * (number % 3)), 500 + 90 * number + 300 * (number % 3))
        for number in range(12)
    ]

    assert fitted(calls, [])[3] == pytest.approx(1.0, abs=0.05)


def test_what_no_call_speaks_of_stays_as_it_is():
    calls = [Observed(Growth(500 + 90 * number, 1 + number % 3), 507 + 97 * number) for number in range(12)]

    found = fitted(calls, [])

    assert found[0] != 1.0
    assert found[2:] == (0.0, 0.0)


def test_errors_are_relative_but_not_to_next_to_nothing():
    seen = [Observed(Growth(900), 950), Observed(Growth(950), 900), Observed(Growth(0), 4)]

    assert sizes_of(seen) == [1000, 1000, 54]


@pytest.mark.parametrize(("values", "middle"), [([3], 3), ([4, 1], 2.5), ([9, 1, 2], 2)])
def test_the_median_is_the_value_in_the_middle(values, middle):
    assert median(values) == middle
