"""What a call cost."""

from typing import Protocol

from proxy.pricing.prices import HOUR_FACTOR, Price


class Counts(Protocol):
    """Token counts of a call, as `tokens.usage.Usage` has them; input includes cache reads and writes."""

    @property
    def input_tokens(self) -> int | None:
        """All input, cached tokens included."""

    @property
    def cache_read_tokens(self) -> int | None:
        """Part of the input."""

    @property
    def cache_write_tokens(self) -> int | None:
        """Part of the input."""

    @property
    def hour_write_tokens(self) -> int | None:
        """Part of what was written."""

    @property
    def output_tokens(self) -> int | None:
        """All output, reasoning included."""


def cost(usage: Counts, price: Price | None) -> float | None:
    """US dollars for a call's usage; None when the price is unknown or no input was reported."""
    if price is None or usage.input_tokens is None:
        return None
    rates = price.at(usage.input_tokens)
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return (
        max(0, usage.input_tokens - read - written) * rates.input
        + read * rates.cache_read
        + (written + (HOUR_FACTOR - 1) * (usage.hour_write_tokens or 0)) * rates.cache_write
        + (usage.output_tokens or 0) * rates.output
    )
