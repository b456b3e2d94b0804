r"""JSON objects from bytes, cut anywhere: the elements of one array that is sent piece by piece, or objects in a row.

    [{…}\n,\r\n{…}\n]       {…}       {…}\n{…}

What stands between the objects is skipped. Each byte is looked at once, however small the pieces are.
"""

import re

# Everything up to the next brace, whole strings included; stops at the quote of a string that does not end here.
_SKIP = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+', re.DOTALL)
# Up to the quote that ends a string, or to a backslash whose partner has not come yet. Possessive: nothing to go back to.
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class ElementSplitter:
    """Bytes in, complete objects out.

    `limit_bytes` bounds what is held of an object that does not end: beyond it the object is given up, and reading goes
    on behind its end.
    """

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._limit = limit_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The objects that this chunk completes."""
        found = []
        start = position = 0
        while (at := self._next_mark(chunk, position)) >= 0:
            position = at + 1
            if chunk[at] == ord("{"):
                if self._depth == 0:
                    start = at
                self._depth += 1
            elif self._depth > 0:
                self._depth -= 1
                if self._depth == 0:
                    self._hold(chunk[start:position])
                    found += self._released()
        if self._depth:
            self._hold(chunk[start:])
        return found

    @property
    def held_bytes(self) -> int:
        """Size of what is held of the object that has not ended yet."""
        return self._size if self._size <= self._limit else 0

    def _next_mark(self, chunk: bytes, position: int) -> int:
        """Index of the next brace outside strings; -1 when none is left in this chunk."""
        while True:
            if self._in_string:
                position = self._string_end(chunk, position)
                if position < 0:
                    return -1
            match = _SKIP.match(chunk, position)
            at = match.end() if match else position
            if at == len(chunk):
                return -1
            if chunk[at] != ord('"'):
                return at
            self._in_string = True
            position = at + 1

    def _string_end(self, chunk: bytes, position: int) -> int:
        """Index behind the string's closing quote; -1 when it has not come."""
        if self._escaped and position < len(chunk):
            self._escaped = False
            position += 1
        match = _STRING.match(chunk, position)
        at = match.end() if match else position
        if at == len(chunk):
            return -1
        if chunk[at] == ord("\\"):
            self._escaped = True
            return -1
        self._in_string = False
        return at + 1

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
        else:
            self._pieces = []

    def _released(self) -> list[bytes]:
        """The object that is held, now that it is complete; nothing when it grew too large."""
        whole = [b"".join(self._pieces)] if self._size <= self._limit else []
        self._pieces, self._size = [], 0
        return whole
