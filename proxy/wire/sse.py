"""Server-sent events from bytes, cut anywhere (WHATWG HTML, "9.2 Server-sent events").

Lines end with CR, LF or CRLF and nothing else: U+2028 inside JSON is content. One leading byte order mark is skipped,
`data:` may lack its space, several data lines are joined with LF. Bytes are decoded by nobody here: an event's data
stays bytes until it is complete.
"""

import re
from collections.abc import Iterator

import msgspec

_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
# The same where no CR stands alone; a pattern that begins with a plain letter is found many times faster.
_CRLF_EVENT_END = re.compile(rb"\n\r?\n")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One complete event."""

    name: str
    """The `event:` field; empty when there is none."""
    data: bytes
    """All data lines joined with LF; empty for comments alone."""
    raw: bytes
    """The event's bytes, its ending blank line included."""

    @property
    def said(self) -> bytes:
        """Its data; or all of it, where a server has answered with a JSON text under a stream's name."""
        return self.raw if not self.data and self.raw.lstrip().startswith(b"{") else self.data


class EventSplitter:
    """Bytes in, complete events out.

    `limit_bytes` bounds what is held of an event that does not end: beyond it the event is given up (its bytes are
    dropped here; the relay has passed them on long before) and reading goes on behind its end.
    """

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._limit = limit_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._started = False
        self._gives_up = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes."""
        # Only the seam needs the last bytes of what came before: an end mark is at most four bytes long.
        seam = self._tail + chunk
        if next(_ends(seam), None) is None:
            self._hold(chunk)
            return []
        buffer = b"".join(self._pieces) + chunk
        if not self._started and buffer:
            self._started = True
            buffer = buffer.removeprefix(_BOM)
        events = []
        position = 0
        for end in _ends(buffer):
            if self._gives_up:
                self._gives_up = False
            else:
                events.append(parse_event(buffer[position:end]))
            position = end
        self._pieces, self._size, self._tail = [], 0, b""
        if position < len(buffer):
            self._hold(buffer[position:])
        return events

    def rest(self) -> Event | None:
        """What is left when the stream ends without a blank line; None when nothing is."""
        buffer = b"".join(self._pieces)
        self._pieces, self._size, self._tail = [], 0, b""
        if self._gives_up or not buffer.strip(b"\r\n"):
            return None
        return parse_event(buffer if self._started else buffer.removeprefix(_BOM))

    @property
    def held_bytes(self) -> int:
        """Size of the event that has not ended yet; of what is left of it, once it is given up."""
        return self._size

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        self._tail = (self._tail + piece)[-3:]
        self._gives_up = self._gives_up or self._size > self._limit
        if self._gives_up:
            # Its end may still be cut in two.
            self._pieces, self._size = [self._tail], len(self._tail)


def _ends(buffer: bytes) -> Iterator[int]:
    """Where events end in these bytes."""
    # A number: looking for bytes in bytes raises and swallows an error each time.
    if 0x0D not in buffer:
        # The same without the costs of a pattern; nearly every stream is written so.
        find = buffer.find
        end = find(b"\n\n")
        while end >= 0:
            end += 2
            yield end
            end = find(b"\n\n", end)
        return
    is_crlf = buffer.count(b"\r", 0, len(buffer) - 1) == buffer.count(b"\r\n")
    for match in (_CRLF_EVENT_END if is_crlf else _EVENT_END).finditer(buffer):
        # A lone CR at the very end may be the first half of CRLF: wait for the next chunk.
        if match.end() < len(buffer) or not buffer.endswith(b"\r"):
            yield match.end()


def parse_event(raw: bytes) -> Event:
    """One event's fields; comments and unknown fields are skipped."""
    # The two forms in which providers write nearly all events: one line of data alone, or behind its name.
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.find(b"\n") == len(raw) - 2 and 0x0D not in raw:
        return Event("", raw[6:-2], raw)
    if raw.endswith(b"}\n\n") and 0x0D not in raw:
        head, _, rest = raw.partition(b"\n")
        if head.startswith(b"event: ") and rest.startswith(b"data: {") and rest.count(b"\n") == 2:
            return Event(head[7:].decode("utf-8", "replace"), rest[6:-2], raw)
    if raw.startswith(b"data: {") and raw.endswith(b"}\r\n\r\n") and raw.count(b"\n") == raw.count(b"\r") == 2:
        # Google's form.
        return Event("", raw[6:-4], raw)
    name = ""
    lines = []
    for line in _LINE_END.split(raw):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return Event(name, b"\n".join(lines), raw)
