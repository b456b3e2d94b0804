"""The strings of a tool result that later turns are most likely to name: paths, ids, symbols, numbers."""

import re
from collections import Counter
from collections.abc import Callable

_TOKEN = re.compile(r"[A-Za-z0-9_$@~./\\:#+-]{3,200}")


def identifiers(text: str, count: Callable[[str], int], room_tokens: int) -> tuple[str, ...]:
    """Distinct identifier-like strings worth at most `room_tokens`: paths first, then the frequent, then the early."""
    found = Counter(word.strip(".:-#+/\\") for word in _TOKEN.findall(text))
    ranked = sorted((word for word in found if is_identifier(word)), key=lambda word: (not is_path(word), -found[word]))
    kept, left = [], room_tokens
    for word in ranked:
        cost = count(f" {word}")
        if cost <= left:
            kept.append(word)
            left -= cost
        if left <= 1:
            break
    return tuple(kept)


def is_path(word: str) -> bool:
    """A file or URL path: separators, or a name with an extension."""
    return "/" in word or "\\" in word or bool(re.fullmatch(r"[\w-]+\.[A-Za-z]{1,5}", word))


def is_identifier(word: str) -> bool:
    """A path, an id, a number of some length or a symbol; not an ordinary word."""
    if is_path(word):
        return True
    has_digit = any(char.isdigit() for char in word)
    return len(word) >= 4 and (has_digit or "_" in word or word[1:].lower() != word[1:])
