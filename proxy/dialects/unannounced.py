"""Answers to requests for a stream whose headers do not say that they are one: the first byte tells.

Gateways stream with no Content-Type, or with that of JSON; Google's JSON array is no event stream; some servers answer
with one JSON text all the same.
"""

from proxy.dialects.base import Dialect, Observation, Reader

NOT_YET = b" \t\r\n\xef\xbb\xbf"
"""What may stand before an answer's first byte: blank lines that keep a connection alive, a byte order mark."""


class Unannounced:
    """A reader that is chosen when the first byte has come."""

    def __init__(self, dialect: Dialect, *, keep_reasoning: bool = False) -> None:
        self._dialect = dialect
        self._keep_reasoning = keep_reasoning
        self._chosen: Reader | None = None

    def feed(self, chunk: bytes) -> None:
        """Take decoded bytes, cut anywhere."""
        if self._chosen is None:
            chunk = chunk.lstrip(NOT_YET)
            if not chunk:
                return
            streams = chunk[:1] not in (b"{", b"[")
            self._chosen = self._dialect.reader(stream=streams, keep_reasoning=self._keep_reasoning)
        self._chosen.feed(chunk)

    def finish(self, *, complete: bool) -> Observation:
        """What came of it."""
        return (self._chosen or self._dialect.reader(stream=False)).finish(complete=complete)


def reader_for(dialect: Dialect, *, announced: bool, wanted: bool, keep_reasoning: bool = False) -> Reader:
    """`announced`: the answer's headers say that it streams. `wanted`: the request asked for that."""
    if wanted and not announced:
        return Unannounced(dialect, keep_reasoning=keep_reasoning)
    return dialect.reader(stream=announced, keep_reasoning=keep_reasoning)
