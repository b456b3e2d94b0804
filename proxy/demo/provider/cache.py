"""A prefix cache as the vendors describe theirs: exact prefixes of earlier requests, above a minimum, until they expire.

OpenAI: automatic, from 1,024 tokens in steps of 128, any shared prefix (guide "Prompt caching"). Anthropic: entries are
written at `cache_control` breakpoints only, and found at a breakpoint or at most 20 blocks before one (docs "Prompt
caching"; we count messages for blocks). Every use of a prefix renews its life.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

_LOOKBACK = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The prompt up to a place."""

    key: bytes
    """Chained digest: stands for everything before it too."""
    tokens: int


class PrefixCache:
    """Which prefixes are warm."""

    def __init__(self, *, ttl_s: float, minimum: int, granularity: int) -> None:
        self._ttl_s = ttl_s
        self._minimum = minimum
        self._granularity = granularity
        self._used: dict[bytes, float] = {}

    def automatic(self, prefixes: Sequence[Prefix], now: float) -> tuple[int, int]:
        """Tokens read, and tokens of this prompt that are warm from now on."""
        read = max((prefix.tokens for prefix in prefixes if self._is_warm(prefix, now)), default=0)
        self._renew(prefixes, now)
        held = prefixes[-1].tokens if prefixes else 0
        step = self._granularity
        return self._large(read) // step * step, self._large(held) // step * step

    def marked(self, prefixes: Sequence[Prefix], marks: Collection[int], now: float) -> tuple[int, int]:
        """The same for a prompt with breakpoints behind the prefixes of these indices."""
        near = [
            prefix
            for index, prefix in enumerate(prefixes)
            if any(mark - _LOOKBACK < index <= mark for mark in marks) and self._is_warm(prefix, now)
        ]
        read = self._large(max((prefix.tokens for prefix in near), default=0))
        self._renew([*near, *(prefixes[mark] for mark in marks)], now)
        held = self._large(prefixes[max(marks)].tokens) if marks else 0
        return read, max(read, held)

    def clear(self) -> None:
        """Forget everything: the provider has evicted it."""
        self._used.clear()

    def _is_warm(self, prefix: Prefix, now: float) -> bool:
        return prefix.key in self._used and now - self._used[prefix.key] <= self._ttl_s

    def _renew(self, prefixes: Sequence[Prefix], now: float) -> None:
        for prefix in prefixes:
            self._used[prefix.key] = now

    def _large(self, tokens: int) -> int:
        return tokens if tokens >= self._minimum else 0
