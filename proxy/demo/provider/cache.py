"""A prefix cache as the vendors describe theirs: exact prefixes of earlier requests, above a minimum, until they expire.

OpenAI: automatic, from 1,024 tokens in steps of 128 (platform guide "Prompt caching"). Anthropic: up to a breakpoint,
no steps. Every use of a prefix renews its life.
"""

from collections.abc import Sequence


class PrefixCache:
    """Which prefixes are warm. Keys are chained digests, so a key stands for everything before it too."""

    def __init__(self, *, ttl_s: float, minimum: int, granularity: int) -> None:
        self._ttl_s = ttl_s
        self._minimum = minimum
        self._granularity = granularity
        self._used: dict[bytes, float] = {}

    def read(self, keys: Sequence[bytes], tokens: Sequence[int], now: float) -> int:
        """Tokens of the longest warm prefix; `tokens[i]` is the size of the prefix that `keys[i]` stands for."""
        for key, size in zip(reversed(keys), reversed(tokens), strict=True):
            if now - self._used.get(key, -1e18) <= self._ttl_s:
                return self._kept(size)
        return 0

    def write(self, keys: Sequence[bytes], tokens: Sequence[int], now: float) -> int:
        """Make all these prefixes warm; gives the size of the longest that is large enough to be cached."""
        for key in keys:
            self._used[key] = now
        return self._kept(tokens[-1]) if tokens else 0

    def clear(self) -> None:
        """Forget everything: the provider's cache has been evicted."""
        self._used.clear()

    def _kept(self, size: int) -> int:
        return 0 if size < self._minimum else size - size % self._granularity
