"""What a tool put before every line of its output, which is no part of the text and hardly ever quoted.

Tools that edit by line hash begin each line with its number and a hash (`129yk|`, `11:a3|`, `5#KT:`); a search begins
each line with the file and the line number (`src/a.py:123:`), which glues them and the text behind into one word a
line. Only a text nearly all of whose lines begin so is touched; plain numbers stay, since calls quote them.
"""

import re
from itertools import pairwise

_FEWEST_LINES = 6
_FEWEST_HASHED = 40
"""Fewer are what an edit or a look at one place shows: there are then few hashes, and the next edits do name them."""
_NEARLY_ALL = 0.8

_HASHED = re.compile(r"\n[ \t*>+-]{0,12}(\d{1,7})(?:[A-Za-z]\w{0,3}\||:\w{1,4}\||#\w{1,4}[|:])", re.ASCII)
_FOUND = re.compile(r"\n((?!\d)[\w.@+/\\-]{1,200}|[A-Za-z]:[\w.@+/\\-]{1,200}):(\d{1,7}):")
"""No time of day: a file whose name begins with a digit is not looked for. Both patterns begin with the line end, which is
found quickly, where `^` is tried at every character."""


def without_beginnings(text: str) -> str:
    """The text without the hashes that begin its lines, and with the files and line numbers of a search as words.

    The same object if its lines do not begin so.
    """
    lines = text.count("\n") + 1
    if lines < _FEWEST_LINES:
        return text
    enough = _NEARLY_ALL * lines
    # Each beginning has one of these marks, which most texts have too few of.
    if text.count(":") + text.count("|") < enough:
        return text
    begun = f"\n{text}"
    if lines >= _FEWEST_HASHED:
        numbers = [int(number) for number in _HASHED.findall(begun)]
        # Line numbers rise; the first column of a table that looks like an anchor need not.
        if len(numbers) >= enough and sum(a <= b for a, b in pairwise(numbers)) >= _NEARLY_ALL * (len(numbers) - 1):
            return _HASHED.sub("\n", begun)
    if len(_FOUND.findall(begun)) >= enough:
        return _FOUND.sub(r"\n\1 \2 ", begun)
    return text
