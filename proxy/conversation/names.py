"""Model names as clients write them, and which rows of a table they match.

Names come with the maker's prefix (`anthropic/claude-…`), a cloud's (`us.anthropic.claude-…-v1:0`) or a fine-tune's
(`ft:gpt-4o:…`). Clauses are words: `=` equals, `^` starts with, `$` ends with, `*` contains, `~` regular expression.
"""

import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_LONGEST = 128
"""Characters of a name that are looked at: names come from clients, and some rows of the tables are expressions."""

_CLOUD = re.compile(r"^(?:[a-z-]+\.)?(?:anthropic|amazon|meta|mistral|cohere|deepseek|openai|qwen|google)\.")
_VENDORS = {"xai": "x-ai", "gemini": "google", "moonshot": "moonshotai"}
"""Our upstreams' names where genai-prices, whose rows the tables hold, says it otherwise."""


def plain_name(model: str) -> str:
    """Lower case, without the prefixes of makers and clouds."""
    return _CLOUD.sub("", model[:_LONGEST].lower().rpartition("/")[2])


def row_of(rows: Sequence[tuple[str, str, T]], model: str, upstream: str) -> T | None:
    """What a table of provider, clauses and value says of a model; None for a stranger.

    The upstream's own rows come first; for those that have none, any maker's stand in.
    """
    names = (plain_name(model), model.lower())
    provider = _VENDORS.get(upstream, upstream)
    at_home = [row for row in rows if row[0] == provider]
    for _, clauses, value in (*at_home, *rows):
        if any(matches(clauses, name) for name in names):
            return value
    return None


def matches(clauses: str, name: str) -> bool:
    """Whether a lower-case name fulfils one of the clauses, which stand separated by spaces."""
    return any(_fulfils(clause[0], clause[1:], name[:_LONGEST]) for clause in clauses.split(" ") if clause)


def _fulfils(kind: str, text: str, name: str) -> bool:
    match kind:
        case "=":
            return name == text
        case "^":
            return name.startswith(text)
        case "$":
            return name.endswith(text)
        case "*":
            return text in name
        case _:
            return re.search(text, name) is not None
