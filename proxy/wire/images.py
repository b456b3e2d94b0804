"""Width and height of a picture from its first bytes: PNG, JPEG, GIF, WebP. Nothing is decoded but the header.

    PNG    IHDR is the first chunk: width and height at byte 16, big-endian            (RFC 2083 §4.1.1)
    GIF    logical screen at byte 6, little-endian                                       (GIF89a §18)
    JPEG   segments up to a start-of-frame, height before width                          (ITU T.81 §B.2.2)
    WebP   VP8 (RFC 6386 §9.1), VP8L and VP8X                                            (RFC 9649 §2)

A size of 0 is nonsense and counts as unknown.
"""

import binascii
from base64 import b64decode
from typing import Final

Size = tuple[int, int]
"""Width and height in pixels."""

HEAD_BYTES: Final = 64 * 1024
"""A JPEG's colour profile and thumbnail stand before its frame header; they seldom fill more than this."""

_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""


def size_of(head: bytes) -> Size | None:
    """Pixels of the picture that begins with these bytes; None for other formats, cut headers and nonsense."""
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        size = _big(head, 16, 4), _big(head, 20, 4)
    elif head[:6] in (b"GIF87a", b"GIF89a"):
        size = _little(head, 6, 2), _little(head, 8, 2)
    elif head[:2] == b"\xff\xd8":
        size = _jpeg(head)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _webp(head)
    else:
        return None
    return size if min(size) > 0 else None


def size_of_base64(text: str) -> Size | None:
    """As `size_of`, from base64 or a whole `data:` URL; reads only the head."""
    start = text.find(",", 0, 256) + 1 if text.startswith("data:") else 0
    # A kibibyte does for everything but JPEG, whose frame may stand behind a profile and a thumbnail.
    for most in (1024, HEAD_BYTES):
        size = size_of(_decoded(text[start : start + most // 3 * 4]))
        if size is not None:
            return size
    return None


def _decoded(head: str) -> bytes:
    head = head[: len(head) // 4 * 4]
    try:
        return b64decode(head.replace("-", "+").replace("_", "/"))
    except (binascii.Error, ValueError):
        return b""


def _big(head: bytes, at: int, length: int) -> int:
    """Big-endian number; 0 when the head ends before it does."""
    part = head[at : at + length]
    return int.from_bytes(part, "big") if len(part) == length else 0


def _little(head: bytes, at: int, length: int) -> int:
    part = head[at : at + length]
    return int.from_bytes(part, "little") if len(part) == length else 0


def _jpeg(head: bytes) -> Size:
    at = 2
    while at + 4 <= len(head):
        if head[at] != 0xFF:
            break
        marker = head[at + 1]
        if marker in _FRAMES:
            return _big(head, at + 7, 2), _big(head, at + 5, 2)
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        else:
            at += 2 + max(2, _big(head, at + 2, 2))
    return 0, 0


def _webp(head: bytes) -> Size:
    kind = head[12:16]
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        return _little(head, 26, 2) & 0x3FFF, _little(head, 28, 2) & 0x3FFF
    if kind == b"VP8L" and head[20:21] == b"\x2f" and len(head) >= 25:
        bits = _little(head, 21, 4)
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    if kind == b"VP8X" and len(head) >= 30:
        return _little(head, 24, 3) + 1, _little(head, 27, 3) + 1
    return 0, 0
