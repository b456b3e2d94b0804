"""Values to bytes and back, the same on every store. What cannot be read again counts as absent, never as an error."""

import zlib
from functools import lru_cache

import msgspec

from proxy.conversation.edit import Plan, decode_plan
from proxy.errors import Unstorable
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn

# Plans hold placeholders and summaries: text that shrinks three- to fivefold. Below a page it is not worth the time.
COMPRESS_FROM_BYTES = _PAGE_BYTES = 4096
_RAW, _ZLIB = b"\0", b"\1"
_LEVEL = 1
_ZLIB_HEAD = b"\x78\x01"
"""Deflate, a window of 32 KiB, compressed fast: RFC 1950, section 2.2."""
_HEAD_BYTES = 16
"""Of a plan's encoding: the number of its edits stands there, so that it differs from turn to turn."""
_BLOCK_BYTES = 2 * _PAGE_BYTES
"""Blocks of 4 KiB make a plan of 40 KB a tenth longer than one stream does, those of 8 KiB half of that."""
# No plan of a body of 64 MB comes near the first, no original near the second; a stored value that inflates further is damaged or hostile.
_MOST_PLAN_BYTES = 256 * 1024 * 1024
_MOST_ORIGINAL_BYTES = 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_anchors = msgspec.msgpack.Decoder(Anchor)
_turns = msgspec.msgpack.Decoder(Turn)
_originals = msgspec.msgpack.Decoder(Original)


def pack(value: Anchor | Turn) -> bytes:
    """The stored form. Unstorable for what no store can hold: lone surrogates, integers over 64 bits."""
    try:
        return _encoder.encode(value)
    except (ValueError, OverflowError) as error:
        raise Unstorable(f"{type(value).__name__.lower()} cannot be stored: {type(error).__name__}") from error


def unpack_anchor(packed: bytes) -> Anchor | None:
    """The anchor, or None when the bytes are not one."""
    try:
        return _anchors.decode(packed)
    except msgspec.MsgspecError:
        return None


def unpack_turn(packed: bytes) -> Turn | None:
    """The turn, or None when the bytes are not one."""
    try:
        return _turns.decode(packed)
    except msgspec.MsgspecError:
        return None


def pack_plan(plan: Plan) -> bytes:
    """The stored form of a plan."""
    encoded = plan.encoded()
    return _RAW + encoded if len(encoded) <= COMPRESS_FROM_BYTES else _ZLIB + _in_blocks(encoded)


def unpack_plan(packed: bytes) -> Plan | None:
    """The plan, or None when the bytes are not one."""
    try:
        return decode_plan(_whole(packed, _MOST_PLAN_BYTES))
    except (msgspec.MsgspecError, zlib.error):
        return None


def pack_original(original: Original) -> bytes:
    """The stored form of an original."""
    encoded = _encoder.encode(original)
    return _RAW + encoded if len(encoded) <= COMPRESS_FROM_BYTES else _ZLIB + zlib.compress(encoded, _LEVEL)


def unpack_original(packed: bytes) -> Original | None:
    """The original, or None when the bytes are not one."""
    try:
        return _originals.decode(_whole(packed, _MOST_ORIGINAL_BYTES))
    except (msgspec.MsgspecError, zlib.error):
        return None


def _in_blocks(encoded: bytes) -> bytes:
    """A zlib stream (RFC 1950) whose parts are compressed each for itself.

    A plan grows at its end, at every turn where a provider has no prompt cache: so only what fills a page or a block for
    the first time is compressed, and what fills no page yet stands as it is.
    """
    behind_blocks = len(encoded) - (len(encoded) - _HEAD_BYTES) % _BLOCK_BYTES
    behind_pages = len(encoded) - (len(encoded) - _HEAD_BYTES) % _PAGE_BYTES
    parts = (
        _ZLIB_HEAD,
        _stored(encoded[:_HEAD_BYTES]),
        *[_block(encoded[start : start + _BLOCK_BYTES]) for start in range(_HEAD_BYTES, behind_blocks, _BLOCK_BYTES)],
        *([_block(encoded[behind_blocks:behind_pages])] if behind_blocks < behind_pages else ()),
        _stored(encoded[behind_pages:], last=True),
        zlib.adler32(encoded).to_bytes(4, "big"),
    )
    return b"".join(parts)


@lru_cache(maxsize=256)
def _block(encoded: bytes) -> bytes:
    """Compressed, up to the border of a byte, with nothing that refers to what stands before."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(encoded) + compressor.flush(zlib.Z_FULL_FLUSH)


def _stored(encoded: bytes, *, last: bool = False) -> bytes:
    """A block that is not compressed (RFC 1951, section 3.2.4), or the stream's last one."""
    size = len(encoded)
    return (b"\1" if last else b"\0") + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + encoded


def _whole(packed: bytes, most_bytes: int) -> bytes:
    """What was compressed; empty, which is no value, for any other form."""
    if packed[:1] == _RAW:
        return packed[1:]
    return zlib.decompressobj().decompress(packed[1:], most_bytes) if packed[:1] == _ZLIB else b""
