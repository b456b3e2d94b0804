"""What tokens cost at a model, and how its prompt cache behaves.

Prices are rows of genai-prices. How long a cache lives and from what length it works is in no price table: those figures,
and ratios where a row has none, come from the providers' documentation (2026-11). Money is US dollars a token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from proxy.conversation.names import matches, plain_name, row_of
from proxy.pricing.price_rows import ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars a token."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    """What a token costs that is written to the cache; equal to `input` where writing is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The rates of a model, with dearer ones for long inputs where it has them."""

    rates: Rates
    long_from: int | None = None
    """Input tokens above which the whole call is charged at `long_rates`."""
    long_rates: Rates | None = None

    def at(self, input_tokens: int) -> Rates:
        """The rates for a call with this input."""
        if self.long_from is not None and self.long_rates is not None and input_tokens > self.long_from:
            return self.long_rates
        return self.rates


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHabit:
    """How a provider's prompt cache behaves; ratios are to the uncached input price."""

    read_ratio: float = 0.1
    write_ratio: float = 1.0
    ttl_s: float = 300.0
    """Idle seconds after which a prefix is taken for gone."""
    outlives: bool = True
    """It may still be there then: that is the least or the usual time, no promise."""
    min_prefix: int = 1024
    """Tokens below which nothing is cached."""
    step: int = 1
    """Hits come in multiples of this many tokens."""


HOUR_FACTOR: Final = 1.6
"""Writing for an hour costs 2.0 of the input price, for five minutes 1.25 (Anthropic docs, "Prompt caching")."""
HOUR_S: Final = 3600.0


def for_an_hour(habit: CacheHabit) -> CacheHabit:
    """The same cache where the client has its entries live for an hour."""
    return replace(habit, write_ratio=habit.write_ratio * HOUR_FACTOR, ttl_s=max(habit.ttl_s, HOUR_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOverrides:
    """What the configuration says about a model's cache; None: nothing."""

    cache_read_ratio: float | None = None
    cache_write_ratio: float | None = None
    cache_ttl_s: float | None = None


NO_OVERRIDES: Final = PriceOverrides()

_STRANGER: Final = CacheHabit(write_ratio=1.25)
"""A model that nobody knows: the dearest writing that is usual, so that no edit is taken for cheaper than it is."""
_CLAUDE: Final = CacheHabit(read_ratio=0.1, write_ratio=1.25, ttl_s=300, outlives=False)
_OPENAI: Final = CacheHabit(read_ratio=0.1, ttl_s=600, step=128)
_OPENAI_NEW: Final = CacheHabit(read_ratio=0.1, write_ratio=1.25, ttl_s=1800)
_UNCACHED: Final = CacheHabit(read_ratio=1.0)
_GEMINI: Final = CacheHabit(read_ratio=0.1, ttl_s=600)

_HABITS: Final = (
    # First match wins. Minimum prefixes of Claude: documentation and SDK issue anthropic-sdk-python#1194.
    ("*opus-5-5 *opus-5.5 *sonnet-5-5 *sonnet-5.5", replace(_CLAUDE, read_ratio=0.05)),
    ("*fable-5-1 *fable-5.1 *mythos-5-1 *mythos-5.1", replace(_CLAUDE, read_ratio=0.025, min_prefix=512)),
    ("*opus-5 *fable-5 *mythos-5", replace(_CLAUDE, min_prefix=512)),
    ("*opus-4-7 *opus-4.7 *sonnet-4-6 *sonnet-4.6", replace(_CLAUDE, min_prefix=2048)),
    ("*opus-4-6 *opus-4.6 *opus-4-5 *opus-4.5 *haiku-4-5 *haiku-4.5", replace(_CLAUDE, min_prefix=4096)),
    ("*claude", _CLAUDE),
    ("^gpt-6.1", replace(_OPENAI_NEW, read_ratio=0.05)),
    ("^gpt-5.6 ^gpt-6", _OPENAI_NEW),
    ("^gpt-4.1 ~^o3(?!-mini) ^o4-mini", replace(_OPENAI, read_ratio=0.25)),
    # Prompt caching began with the second gpt-4o.
    ("=gpt-4 ^gpt-4-0 ^gpt-4-1 ^gpt-4-32k ^gpt-4-turbo ^gpt-4-vision ^gpt-3.5 ^gpt-35 =gpt-4o-2024-05-13", _UNCACHED),
    ("^gpt-4o ^o1 ^o3-mini", replace(_OPENAI, read_ratio=0.5)),
    ("^gpt- ^codex", _OPENAI),
    ("~gemini.*pro", replace(_GEMINI, min_prefix=4096)),
    ("*gemini", _GEMINI),
    # On disk, for hours to days; the lower end.
    ("~deepseek.*flash", CacheHabit(read_ratio=0.02, ttl_s=14_400, min_prefix=64, step=64)),
    ("~deepseek.*v4", CacheHabit(read_ratio=0.033, ttl_s=14_400, min_prefix=64, step=64)),
    ("*deepseek", CacheHabit(read_ratio=0.1, ttl_s=14_400, min_prefix=64, step=64)),
    ("*grok-4.5 *grok-4-5", CacheHabit(read_ratio=0.15, ttl_s=600, min_prefix=128, step=128)),
    ("*grok-4.20", CacheHabit(read_ratio=0.16, ttl_s=600, min_prefix=128, step=128)),
    ("*grok", CacheHabit(read_ratio=0.25, ttl_s=600, min_prefix=128, step=128)),
    ("~mistral|codestral|magistral|ministral", CacheHabit(read_ratio=0.1, ttl_s=600)),
)


def price_for(model: str, *, upstream: str = "", overrides: PriceOverrides = NO_OVERRIDES) -> Price | None:
    """The price of a model at an upstream; None when no table knows it. The maker's price stands in for a stranger's."""
    price = _priced(model, upstream)
    if price is None or overrides == NO_OVERRIDES:
        return price
    long = _overridden(price.long_rates, overrides) if price.long_rates else None
    return Price(rates=_overridden(price.rates, overrides), long_from=price.long_from, long_rates=long)


def habit_for(model: str, *, upstream: str = "", overrides: PriceOverrides = NO_OVERRIDES) -> CacheHabit:
    """How the cache behaves for a model: the price row's ratios where it has them, the family's figures for the rest."""
    name = plain_name(model)
    habit = next((habit for clauses, habit in _HABITS if matches(clauses, name)), _STRANGER)
    price = price_for(model, upstream=upstream)
    if price is not None and price.rates.input > 0:
        rates = price.rates
        habit = replace(
            habit,
            read_ratio=round(rates.cache_read / rates.input, 4),
            write_ratio=round(rates.cache_write / rates.input, 4),
        )
    return CacheHabit(
        read_ratio=_first(overrides.cache_read_ratio, habit.read_ratio),
        write_ratio=_first(overrides.cache_write_ratio, habit.write_ratio),
        ttl_s=_first(overrides.cache_ttl_s, habit.ttl_s),
        outlives=habit.outlives and overrides.cache_ttl_s is None,
        min_prefix=habit.min_prefix,
        step=habit.step,
    )


def _first(wish: float | None, otherwise: float) -> float:
    return otherwise if wish is None else wish


def _overridden(rates: Rates, overrides: PriceOverrides) -> Rates:
    read, write = overrides.cache_read_ratio, overrides.cache_write_ratio
    return replace(
        rates,
        cache_read=rates.cache_read if read is None else rates.input * read,
        cache_write=rates.cache_write if write is None else rates.input * write,
    )


@lru_cache(maxsize=512)
def _priced(model: str, upstream: str) -> Price | None:
    fields = row_of(_rows(), model, upstream)
    return None if fields is None else _price(fields, plain_name(model))


@cache
def _rows() -> Sequence[tuple[str, str, str]]:
    rows = (line.split("\t") for line in ROWS.strip().splitlines())
    return [(provider, clauses, fields) for provider, clauses, fields in rows]


def _price(fields: str, plain: str) -> Price:
    """A row's fields: input, output, read, write; then a threshold and the same four above it."""
    habit = next((habit for clauses, habit in _HABITS if matches(clauses, plain)), None)
    row = fields.split("|")
    rates = _rates(row[:4], habit)
    if len(row) <= 5:
        return Price(rates=rates)
    return Price(rates=rates, long_from=int(row[4]), long_rates=_rates(row[5:9], habit))


def _rates(row: Sequence[str], habit: CacheHabit | None) -> Rates:
    million = [float(field) / 1e6 if field else None for field in (*row, "", "", "", "")]
    charged = million[0] or 0.0
    read, write = million[2], million[3]
    return Rates(
        input=charged,
        output=million[1] or 0.0,
        # A row without a cache price: the family's ratio, or no rebate at a provider that we know nothing about.
        cache_read=read if read is not None else charged * (habit.read_ratio if habit else 1.0),
        cache_write=write if write is not None else charged,
    )
