"""What has come of an answer's body and nobody has taken yet."""

from collections.abc import Callable

_MOST_BYTES = 256 * 1024
"""An answer that nobody reads is taken in up to here; then the upstream waits."""


class Arrivals:
    """Pieces of a body, for who asks for them, or for who takes each at once (`into`)."""

    __slots__ = ("_into", "_pieces", "held_back", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0
        """Bytes that wait to be taken."""
        self.held_back = False
        """No more comes, since nobody took what there is."""
        self._into: Callable[[bytes], bool] | None = None

    @property
    def pours(self) -> bool:
        """Somebody takes each piece at once."""
        return self._into is not None

    def add(self, piece: bytes) -> bool:
        """Keep a piece. True, once: no more should come, until all is taken and `held_back` is unset."""
        self._pieces.append(piece)
        self.size += len(piece)
        if self.size <= _MOST_BYTES or self.held_back:
            return False
        self.held_back = True
        return True

    def take(self) -> bytes:
        """All that waits; b"" for nothing."""
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return piece

    def into(self, into: Callable[[bytes], bool] | None) -> None:
        """From now on `pass_on` gives the pieces to this; None: they wait again."""
        self._into = into

    def pass_on(self) -> None:
        """What waits, to who takes it at once; he gives False when he wants no more."""
        if self._into is not None and self._pieces and not self._into(self.take()):
            self._into = None
