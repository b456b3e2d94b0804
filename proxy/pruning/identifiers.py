"""The strings of a text that later turns are most likely to name: symbols, files, paths, ids, numbers.

What a model quotes from an old result is hardly ever a sentence; it is a name. A short list of names in place of the
result therefore keeps most of what is needed. Names that stand elsewhere in the conversation need no room in the list.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from operator import itemgetter

from proxy.conversation.recall import remembered
from proxy.conversation.steps import Steps, Stepwise
from proxy.pruning.beginnings import without_beginnings
from proxy.tokens.pieces import counted

_CHARACTERS = frozenset(b"_$@~./\\:+-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BLANKED = bytes(code if code in _CHARACTERS else ord(" ") for code in range(256))
"""What identifiers are made of; a space for everything else."""
_SHORTEST = 4
_LONGEST = 120
"""Longer ones are cut: hashes, encoded data and query strings, which are dear and never quoted."""
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")
_DIGITS = frozenset("0123456789")
_EDGE = ".:-+/\\~@$"

_GENEROUS = 1.4
_STEP_WORDS = 4096
"""Looked at in up to 2 ms."""

_WEIGHT = {"symbol": 8, "file": 8, "path": 4, "id": 3, "number": 2, "url": 1}
"""How much likelier one kind is to be quoted than another, in round figures: symbols and file names of program code are
quoted about every third time, paths and ids every tenth, numbers and web addresses every thirtieth."""
_NUMBER_WEIGHT = _WEIGHT["number"]


def identifiers(
    text: str, count: Callable[[str], int], room_tokens: int, known: Collection[str] = ()
) -> tuple[str, ...]:
    """Distinct identifiers worth at most `room_tokens`, in the order in which they stand in the text.

    Chosen by likelihood for the room they take: kind, times one more for each doubling of frequency, per token.
    `known`: words that stand elsewhere and are left out.
    """
    return best_of(words(text), count, room_tokens, known)


@Stepwise
def best_of(
    found: Mapping[str, int], count: Callable[[str], int], room_tokens: int, known: Collection[str] = ()
) -> Steps[tuple[str, ...]]:
    """The same from identifiers with their frequency."""
    ranked: list[tuple[float, int, str]] = []
    every = iter(found.items())
    while some := list(islice(every, _STEP_WORDS)):
        _rank(some, known, ranked)
        if len(some) == _STEP_WORDS:
            yield
    ranked.sort(key=itemgetter(0), reverse=True)
    # Counting each word would take longer than everything else: the best few are taken by a rough measure that is rather
    # too generous, then counted as a whole and cut until they fit.
    kept: list[str] = []
    left = room_tokens * _GENEROUS
    for _, tokens, word in ranked:
        if tokens <= left:
            kept.append(word)
            left -= tokens
        elif left < 1:
            break
    while kept:
        tokens = yield from counted(" ".join(kept), count)
        if tokens <= room_tokens:
            break
        del kept[min(len(kept) - 1, len(kept) * room_tokens // tokens) :]
    return tuple(filter(set(kept).__contains__, found))


def _rank(some: Iterable[tuple[str, int]], known: Collection[str], ranked: list[tuple[float, int, str]]) -> None:
    """Add what is not known, each with its likelihood and about the tokens that it takes."""
    for word, times in some:
        if word not in known:
            # Behind a space, in pieces of about three digits, or of more letters.
            if word.isdigit():
                weight, tokens = _NUMBER_WEIGHT, 1 + len(word) // 3
            else:
                weight, tokens = _WEIGHT[_kind_of_name(word)], 1 + len(word) // 5
            ranked.append(((weight * (1 + math.log2(times)) if times > 1 else weight) / tokens, tokens, word))


@remembered(room_bytes=12 * 1024 * 1024)
def words(text: str) -> dict[str, int]:
    """The identifiers of a text with their frequency, in order of first appearance. Shared: not to be changed."""
    return _counted(text)


@remembered(room_bytes=4 * 1024 * 1024)
def words_of_json(text: str) -> tuple[str, ...]:
    """The distinct identifiers in the strings of a JSON text, in order of first appearance.

    Its escaped line ends and quotes would glue words together. No set: what is chosen among equals would then depend on
    the process.
    """
    return tuple(_counted(unescaped(text)))


def unescaped(text: str) -> str:
    """A JSON text with its escaped line ends, tabs, quotes and backslashes undone, so that words end where they end."""
    plain = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    return plain.replace("\0", "\\")


def _counted(text: str) -> dict[str, int]:
    # By tables, and each run once: a regular expression over the text takes twice as long.
    runs = without_beginnings(text).encode("ascii", "replace").translate(_BLANKED).decode().split()
    found: dict[str, int] = {}
    for run, times in Counter(runs).items():
        if run.isdigit():
            # Numbers are what they are without a closer look.
            word = run if _SHORTEST <= len(run) <= _LONGEST else ""
        elif run.isalpha() and run.islower():
            # Most are plain words, which are no identifiers.
            continue
        else:
            word = _word_in(run)
        if word:
            found[word] = found[word] + times if word in found else times
        elif len(run) > _LONGEST:
            for piece in map(_word_in, _pieces(run)):
                if piece:
                    found[piece] = found.get(piece, 0) + times
    return found


@lru_cache(maxsize=16384)
def _word_in(run: str) -> str:
    """The identifier in a run of such characters; empty where there is none, or where it is too long to be one."""
    word = run.strip(_EDGE) if len(run) <= _LONGEST else ""
    return word if kind_of(word) else ""


def _pieces(run: str) -> list[str]:
    return [run[start : start + _LONGEST] for start in range(0, len(run), _LONGEST)]


def kind_of(word: str) -> str:
    """One of symbol, file, path, id, number, url; empty for an ordinary word."""
    if len(word) < _SHORTEST:
        return ""
    # Numbers are seldom seen again: they would drive the names out of what is remembered.
    return "number" if word.isdigit() else _kind_of_name(word)


@lru_cache(maxsize=8192)
def _kind_of_name(word: str) -> str:
    if word.lower() == word.upper():
        return ""
    if "://" in word:
        return "url"
    if "/" in word or "\\" in word:
        return "path"
    if "." in word and _FILE.fullmatch(word):
        return "file"
    if not _DIGITS.isdisjoint(word):
        return "id"
    inner_capital = word[1:] != word[1:].lower() and not word.isupper()
    if "-" in word:
        # Hyphenated names of products and people; weak, as numbers are.
        return "number" if inner_capital else ""
    return "symbol" if "_" in word.strip("_") or "." in word or inner_capital else ""
