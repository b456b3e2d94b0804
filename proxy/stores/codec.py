"""Values to bytes and back, the same on every store. What cannot be read again counts as absent, never as an error."""

import zlib

import msgspec

from proxy.conversation.edit import Plan, decode_plan
from proxy.errors import Unstorable
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn

# Plans hold placeholders and summaries: text that shrinks three- to fivefold. Below a page it is not worth the time.
COMPRESS_FROM_BYTES = 4096
_RAW, _ZLIB = b"\0", b"\1"
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
    return _pressed(plan.encoded())


def unpack_plan(packed: bytes) -> Plan | None:
    """The plan, or None when the bytes are not one."""
    try:
        return decode_plan(_whole(packed, _MOST_PLAN_BYTES))
    except (msgspec.MsgspecError, zlib.error):
        return None


def pack_original(original: Original) -> bytes:
    """The stored form of an original."""
    return _pressed(_encoder.encode(original))


def unpack_original(packed: bytes) -> Original | None:
    """The original, or None when the bytes are not one."""
    try:
        return _originals.decode(_whole(packed, _MOST_ORIGINAL_BYTES))
    except (msgspec.MsgspecError, zlib.error):
        return None


def _pressed(encoded: bytes) -> bytes:
    """One byte that tells the form, then the encoding, compressed where it is long."""
    if len(encoded) <= COMPRESS_FROM_BYTES:
        return _RAW + encoded
    return _ZLIB + zlib.compress(encoded, 1)


def _whole(packed: bytes, most_bytes: int) -> bytes:
    """What was pressed; empty, which is no value, for any other form."""
    if packed[:1] == _RAW:
        return packed[1:]
    return zlib.decompressobj().decompress(packed[1:], most_bytes) if packed[:1] == _ZLIB else b""
