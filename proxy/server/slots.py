"""Memory that the workers of one port share: each writes its own slot, all read all.

It is anonymous and made before the workers, so nothing lies on a disk and nothing is left when they have ended. A slot
outlives its worker: the successor finds there what its predecessor wrote last. Each slot has two halves that are written
in turn, so that one of them is whole at any moment, also when a worker dies while it writes.
"""

import mmap
import struct
from zlib import crc32

HALF_BYTES = 2 * 1024 * 1024
"""Of address space: what is never written takes no memory."""
_HEAD = struct.Struct("=QII")
"""Number of the writing, length of what is written, and its checksum."""


class Slots:
    """One slot a worker, by its index. To be made before the fork."""

    def __init__(self, count: int, half_bytes: int = HALF_BYTES) -> None:
        self._slots = [mmap.mmap(-1, 2 * half_bytes) for _ in range(count)]
        self._half = half_bytes

    def __len__(self) -> int:
        return len(self._slots)

    def write(self, index: int, value: bytes) -> bool:
        """Replace what stands in the slot, which one process may do; False, and nothing done, when that is too much."""
        if len(value) > self._half - _HEAD.size:
            return False
        number = self._newest(index)[0] + 1
        slot, at = self._slots[index], number % 2 * self._half
        slot[at + _HEAD.size : at + _HEAD.size + len(value)] = value
        slot[at : at + _HEAD.size] = _HEAD.pack(number, len(value), crc32(value))
        return True

    def read(self, index: int) -> bytes:
        """What was written last, as a whole; empty when nothing was."""
        return self._newest(index)[1]

    def _newest(self, index: int) -> tuple[int, bytes]:
        return max(self._read_half(index, 0), self._read_half(index, self._half), key=lambda half: half[0])

    def _read_half(self, index: int, at: int) -> tuple[int, bytes]:
        slot = self._slots[index]
        number, length, checksum = _HEAD.unpack(slot[at : at + _HEAD.size])
        value = slot[at + _HEAD.size : at + _HEAD.size + min(length, self._half - _HEAD.size)]
        return (number, value) if crc32(value) == checksum else (0, b"")
