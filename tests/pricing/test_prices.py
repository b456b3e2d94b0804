import pytest

from proxy.pricing.prices import CacheHabit, PriceOverrides, habit_for, price_for

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "upstream", "dollars"),
    [
        ("claude-sonnet-4-5", "anthropic", (3, 15, 0.3, 3.75)),
        ("anthropic/claude-sonnet-4.5", "openrouter", (3, 15, 0.3, 3.75)),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "", (3, 15, 0.3, 3.75)),
        ("gpt-5", "openai", (1.25, 10, 0.125, 1.25)),
        ("gpt-4o", "", (2.5, 10, 1.25, 2.5)),
        ("gpt-5.6", "openai", (4, 20, 0.4, 5)),
        ("grok-4.7", "xai", (2, 6, 0.5, 2)),
    ],
)
def test_known_models_have_their_price(model, upstream, dollars):
    rates = price_for(model, upstream=upstream).rates

    got = (rates.input, rates.output, rates.cache_read, rates.cache_write)
    assert [value * MILLION for value in got] == pytest.approx(dollars)


@pytest.mark.parametrize("model", ["", "m-test", "💥"])
def test_unknown_models_have_no_price(model):
    assert price_for(model) is None


def test_long_inputs_are_dearer_where_the_provider_says_so():
    price = price_for("gpt-5.6")

    assert price.at(272_000).input * MILLION == pytest.approx(4)
    assert price.at(272_001).input * MILLION == pytest.approx(8)


def test_a_price_without_tiers_is_the_same_for_every_length():
    price = price_for("gpt-5")

    assert price.at(10) == price.at(10_000_000)


def test_without_a_cache_price_reading_costs_the_familys_ratio():
    assert price_for("mistral-large-latest").rates.cache_read == pytest.approx(0.1 * 2 / MILLION)


def test_without_a_cache_price_and_a_known_family_there_is_no_rebate():
    rates = price_for("llama-3.3-70b-versatile", upstream="groq").rates

    assert rates.cache_read == rates.input


def test_the_configuration_overrides_ratios_in_price_and_habit():
    overrides = PriceOverrides(cache_read_ratio=0.5, cache_write_ratio=2.0, cache_ttl_s=7.0)

    rates = price_for("gpt-5.6", overrides=overrides).at(300_000)
    habit = habit_for("gpt-5.6", overrides=overrides)

    assert (rates.cache_read / rates.input, rates.cache_write / rates.input) == (0.5, 2.0)
    assert (habit.read_ratio, habit.write_ratio, habit.ttl_s) == (0.5, 2.0, 7.0)


@pytest.mark.parametrize(
    ("model", "read", "write", "ttl_s", "min_prefix"),
    [
        ("claude-sonnet-4-5", 0.1, 1.25, 300, 1024),
        ("claude-opus-4-5", 0.1, 1.25, 300, 4096),
        ("claude-opus-5-5", 0.05, 1.25, 300, 1024),
        ("claude-opus-5", 0.1, 1.25, 300, 512),
        ("claude-fable-5-1", 0.025, 1.25, 300, 512),
        ("gpt-5", 0.1, 1.0, 600, 1024),
        ("gpt-5.6", 0.1, 1.25, 1800, 1024),
        ("gpt-6.1-sol", 0.05, 1.25, 1800, 1024),
        ("gpt-4.1", 0.25, 1.0, 600, 1024),
        ("o3", 0.25, 1.0, 600, 1024),
        ("gpt-4o", 0.5, 1.0, 600, 1024),
        ("gpt-4o-2024-05-13", 1.0, 1.0, 300, 1024),
        ("gpt-4-turbo-2024-04-09", 1.0, 1.0, 300, 1024),
        ("gpt-4-0613", 1.0, 1.0, 300, 1024),
        ("gpt-3.5-turbo", 1.0, 1.0, 300, 1024),
        ("ft:gpt-3.5-turbo-0125:acme::x", 1.0, 1.0, 300, 1024),
        ("gemini-2.5-pro", 0.1, 1.0, 600, 4096),
        ("gemini-2.5-flash", 0.1, 1.0, 600, 1024),
        ("grok-4.7", 0.25, 1.0, 600, 128),
        ("deepseek-v4-pro", 0.0333, 1.0, 14_400, 64),
    ],
)
def test_caches_behave_as_documented(model, read, write, ttl_s, min_prefix):
    habit = habit_for(model)

    assert (habit.read_ratio, habit.write_ratio) == (pytest.approx(read, abs=2e-3), pytest.approx(write, abs=1e-3))
    assert (habit.ttl_s, habit.min_prefix) == (ttl_s, min_prefix)


def test_a_stranger_is_taken_for_the_dearest_that_is_usual():
    """A stranger's writing may be charged: an edit that pays then pays with everyone."""
    assert habit_for("m-test") == CacheHabit(read_ratio=0.1, write_ratio=1.25, ttl_s=300, min_prefix=1024)


def test_the_rows_are_those_of_the_installed_price_list():
    """The frozen rows follow genai-prices: regenerate them with tests/bench/model_rows.py when this fails."""
    from genai_prices import Usage, calc_price

    for model in ("claude-sonnet-4-5", "gpt-5", "gpt-4o", "gemini-2.5-flash"):
        theirs = calc_price(Usage(input_tokens=1000, output_tokens=100), model_ref=model).total_price
        rates = price_for(model).rates

        assert 1000 * rates.input + 100 * rates.output == pytest.approx(float(theirs))


def test_only_anthropic_says_to_the_minute_how_long_an_entry_lives():
    assert not habit_for("claude-sonnet-4-5").outlives
    assert habit_for("gpt-5.1").outlives
    assert not habit_for("gpt-5.1", overrides=PriceOverrides(cache_ttl_s=900)).outlives
