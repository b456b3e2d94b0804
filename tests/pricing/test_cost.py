import pytest

from proxy.pricing.cost import cost
from proxy.pricing.prices import Price, Rates
from proxy.tokens.usage import NOT_REPORTED, Usage

PRICE = Price(
    rates=Rates(input=10, output=100, cache_read=1, cache_write=12),
    long_from=1000,
    long_rates=Rates(input=20, output=200, cache_read=2, cache_write=24),
)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(input_tokens=100, output_tokens=2), 1200),
        (Usage(input_tokens=100), 1000),
        (Usage(input_tokens=100, cache_read_tokens=80, cache_write_tokens=15, output_tokens=1), 50 + 80 + 180 + 100),
        (Usage(input_tokens=1001, output_tokens=1), 20_220),
        # Twice the input price instead of 1.25 of it.
        (Usage(input_tokens=100, cache_write_tokens=100, hour_write_tokens=50), 50 * 12 + 50 * 19.2),
        # Impossible parts never make it negative.
        (Usage(input_tokens=10, cache_read_tokens=50), 50),
    ],
)
def test_a_call_costs_its_parts_at_their_rates(usage, dollars):
    assert cost(usage, PRICE) == pytest.approx(dollars)


def test_an_unreported_call_and_an_unknown_price_have_no_cost():
    assert cost(NOT_REPORTED, PRICE) is None
    assert cost(Usage(input_tokens=5), None) is None
