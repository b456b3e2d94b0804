"""A copy of an answer for whoever reads it: decoded, in pieces that are worth the steps, and never in the answer's way."""

from collections.abc import Callable
from itertools import cycle

from proxy.errors import UnsupportedEncoding
from proxy.wire.encoding import ChunkDecoder

_GATHERED_BYTES = 4 * 1024
"""A dozen events are read in half the steps of as many single ones; a thousand streams hold 4 MB so."""
_PHASES = cycle(range(0, _GATHERED_BYTES, 64))
"""Streams that began together are not all to be read in the same turn of the loop, which would hold up all the others."""


class Copying:
    """Gathers what passes, and gives it to `observe` now and then, cut anywhere; `flush` gives it the rest.

    The first failure, of the decoder or of who observes, ends it: `whole` is False then.
    """

    __slots__ = ("_decoder", "_gathered", "_observe", "_size", "whole")

    def __init__(self, observe: Callable[[bytes], None], encoding: bytes | None) -> None:
        self._observe = observe
        self._gathered: list[bytes] = []
        self._size = next(_PHASES)
        self.whole = True
        """Everything was observed."""
        self._decoder: ChunkDecoder | None = None
        if encoding is not None:
            try:
                self._decoder = ChunkDecoder(encoding)
            except UnsupportedEncoding:
                self.whole = False

    def take(self, chunk: bytes) -> None:
        """What has just been passed on."""
        self._gathered.append(chunk)
        self._size += len(chunk)
        if self._size >= _GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Everything that was taken has been observed when this returns, or never will be. Never raises."""
        gathered, self._gathered = self._gathered, []
        self._size = 0
        if not gathered or not self.whole:
            return
        chunk = b"".join(gathered)
        try:
            if self._decoder is None:
                self._observe(chunk)
            else:
                for piece in self._decoder.feed(chunk):
                    self._observe(piece)
        except Exception:  # noqa: BLE001  whatever a reader trips over is its own affair
            self.whole = False
