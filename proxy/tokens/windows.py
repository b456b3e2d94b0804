"""Context windows by model: an own table for what matters and is missing elsewhere, then rows of genai-prices.

Unknown is None, and then nothing is compacted until an overflow answer teaches the window. A window that is too small
would cost users context they have paid for, so doubtful rows are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from proxy.conversation.names import matches, plain_name, row_of
from proxy.tokens.window_rows import ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a model takes and gives, in tokens; None is unknown."""

    window: int | None = None
    """Input and output together."""
    max_output: int | None = None
    max_input: int | None = None
    """A limit of the input alone, where the provider has one that is smaller than the window."""


UNKNOWN: Final = Limits()

_OWN: Final = (
    # clauses, window, largest answer, largest input. 0: not known here. First match wins.
    # https://platform.openai.com/docs/models, 2025-12: 400k of which 272k are input (the error text says 272000).
    ("^gpt-5.4-mini ^gpt-5.4-nano", 400_000, 128_000, 272_000),
    ("^gpt-5.4 ^gpt-5.6 ^gpt-6", 0, 128_000, 922_000),
    ("^gpt-5-chat *-chat-latest", 128_000, 16_384, 0),
    ("=gpt-5 ^gpt-5-2 ^gpt-5-mini ^gpt-5-nano ^gpt-5-codex ^gpt-5-pro ^gpt-5.1 ^gpt-5.2", 400_000, 128_000, 272_000),
    ("^gpt-5", 0, 128_000, 0),
    ("^gpt-4.1", 1_047_576, 32_768, 0),
    ("^gpt-4o ^chatgpt-4o", 0, 16_384, 0),
    ("^gpt-4-turbo ^gpt-4-1106 ^gpt-4-0125 ^gpt-4-vision", 128_000, 4_096, 0),
    ("^gpt-3.5", 0, 4_096, 0),
    ("^o1-mini", 128_000, 65_536, 0),
    ("^o1-preview", 128_000, 32_768, 0),
    ("=o1 ^o1-2 ^o1-pro ^o3 ^o4-mini", 200_000, 100_000, 0),
    # https://docs.anthropic.com/en/docs/about-claude/models, 2025-12.
    ("^claude-3-opus ^claude-3-haiku ^claude-3-sonnet", 0, 4_096, 0),
    ("^claude-3-5 ^claude-3.5", 0, 8_192, 0),
    ("^claude-opus-4-0 ^claude-opus-4-1 ^claude-opus-4-2 ^claude-opus-4.1", 0, 32_000, 0),
    ("^claude", 0, 64_000, 0),
    # https://ai.google.dev/gemini-api/docs/models, 2025-12.
    ("^gemini-2.5-pro ^gemini-2.5-flash-preview-0 ^gemini-3-pro-preview ^gemini-3.1-pro", 1_048_576, 65_536, 0),
    ("^gemini-1.5 ^gemini-2.0", 0, 8_192, 0),
    ("^gemini", 0, 65_536, 0),
    # https://docs.z.ai/guides/llm, 2025-12.
    ("^glm-4.6 ^glm-4.7", 200_000, 131_072, 0),
    # The endpoint's own overflow text, recorded 2026: "maximum context length is 1048565 tokens".
    ("=deepseek-chat =deepseek-reasoner", 1_000_000, 0, 0),
)


def limits_for(model: str, *, upstream: str = "", overrides: Limits = UNKNOWN) -> Limits:
    """Limits of a model at an upstream. `overrides`: what the configuration says, field by field."""
    known = _known(model, upstream)
    return Limits(
        window=overrides.window or known.window,
        max_output=overrides.max_output or known.max_output,
        # A window from the configuration speaks for the whole; a table's input limit may not belong to it.
        max_input=overrides.max_input or (None if overrides.window else known.max_input),
    )


@lru_cache(maxsize=512)
def _known(model: str, upstream: str) -> Limits:
    window = row_of(_rows(), model, upstream)
    plain = plain_name(model)
    for clauses, own_window, max_output, max_input in _OWN:
        if matches(clauses, plain):
            return Limits(window=own_window or window, max_output=max_output or None, max_input=max_input or None)
    return Limits(window=window)


@cache
def _rows() -> Sequence[tuple[str, str, int]]:
    rows = (line.split("\t") for line in ROWS.strip().splitlines())
    return [(provider, clauses, int(window)) for provider, clauses, window in rows]
