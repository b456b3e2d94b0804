"""The strings of a text that later turns are most likely to name: symbols, files, paths, ids, numbers.

What a model quotes from an old result is hardly ever a sentence; it is a name. A short list of names in place of the
result therefore keeps most of what is needed. Names that stand elsewhere in the conversation need no room in the list.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache

from proxy.conversation.recall import remembered

# The longest are hashes, encoded data and query strings: dear, and never quoted.
_WORD = re.compile(r"[A-Za-z0-9_$@~./\\:+-]{4,120}")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")
_EDGE = ".:-+/\\~@$"

_GENEROUS = 1.4

_WEIGHT = {"symbol": 8, "file": 8, "path": 4, "id": 3, "number": 2, "url": 1}
"""How much likelier one kind is to be quoted than another, in round figures: symbols and file names of program code are
quoted about every third time, paths and ids every tenth, numbers and web addresses every thirtieth."""


def identifiers(
    text: str, count: Callable[[str], int], room_tokens: int, known: Collection[str] = ()
) -> tuple[str, ...]:
    """Distinct identifiers worth at most `room_tokens`, in the order in which they stand in the text.

    Chosen by likelihood for the room they take: kind, times one more for each doubling of frequency, per token.
    `known`: words that stand elsewhere and are left out.
    """
    return best_of(words(text), count, room_tokens, known)


def best_of(
    found: Mapping[str, int], count: Callable[[str], int], room_tokens: int, known: Collection[str] = ()
) -> tuple[str, ...]:
    """The same from identifiers with their frequency."""
    ranked = sorted((word for word in found if word not in known), key=lambda word: -_worth(word, found[word]))
    # Counting each word would take longer than everything else: the best few are taken by a rough measure that is rather
    # too generous, then counted as a whole and cut until they fit.
    kept: list[str] = []
    left = room_tokens * _GENEROUS
    for word in ranked:
        if left <= 0:
            break
        if (tokens := _about(word)) <= left:
            kept.append(word)
            left -= tokens
    while kept and (tokens := count(" ".join(kept))) > room_tokens:
        del kept[min(len(kept) - 1, len(kept) * room_tokens // tokens) :]
    chosen = set(kept)
    return tuple(word for word in found if word in chosen)


def _worth(word: str, times: int) -> float:
    return _WEIGHT[kind_of(word)] * (1 + math.log2(times)) / _about(word)


def _about(word: str) -> int:
    """Tokens of a word behind a space, roughly: digits come in threes, letters in larger pieces."""
    return 1 + len(word) // (3 if word.isdigit() else 5)


@remembered(room_bytes=12 * 1024 * 1024)
def words(text: str) -> Counter[str]:
    """The identifiers of a text with their frequency, in order of first appearance. Shared: not to be changed."""
    return Counter(_names(text))


@remembered(room_bytes=4 * 1024 * 1024)
def words_of_json(text: str) -> tuple[str, ...]:
    """The distinct identifiers in the strings of a JSON text, in order of first appearance.

    Its escaped line ends and quotes would glue words together. No set: what is chosen among equals would then depend on
    the process.
    """
    return tuple(dict.fromkeys(_names(unescaped(text))))


def unescaped(text: str) -> str:
    """A JSON text with its escaped line ends, tabs, quotes and backslashes undone, so that words end where they end."""
    plain = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    return plain.replace("\0", "\\")


def _names(text: str) -> Iterator[str]:
    return (word for raw in _WORD.findall(text) if kind_of(word := raw.strip(_EDGE)))


@lru_cache(maxsize=16384)
def kind_of(word: str) -> str:
    """One of symbol, file, path, id, number, url; empty for an ordinary word."""
    if len(word) < 4:
        return ""
    if word.isdigit():
        return "number"
    if not any(map(str.isalpha, word)):
        return ""
    if "://" in word:
        return "url"
    if "/" in word or "\\" in word:
        return "path"
    if _FILE.fullmatch(word):
        return "file"
    if any(map(str.isdigit, word)):
        return "id"
    inner_capital = word[1:] != word[1:].lower() and not word.isupper()
    if "-" in word:
        # Hyphenated names of products and people; weak, as numbers are.
        return "number" if inner_capital else ""
    return "symbol" if "_" in word.strip("_") or "." in word or inner_capital else ""
