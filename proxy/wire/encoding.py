"""Content encodings: whole request bodies within a limit, and answers piece by piece.

Nothing here ever holds much more than its limit: each decoder is asked for bounded pieces of output, however small the
input that they come from (a few kilobytes of gzip can stand for gigabytes).
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import brotli  # type: ignore[import-untyped]

from proxy.errors import BadRequest, BodyTooLarge, UnsupportedEncoding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_PIECE_BYTES = 256 * 1024
"""Most output asked of a decoder at once."""
_MAX_LAYERS = 4


class Corrupt(ValueError):
    """The bytes are not what their Content-Encoding says."""


class _Layer(Protocol):
    """One decoder. `feed` gives bounded pieces; `ended` tells whether its stream is whole."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def ended(self) -> bool: ...


class ChunkDecoder:
    """Reads an encoded answer as it passes, chunks cut anywhere. Raises Corrupt, or UnsupportedEncoding at once."""

    def __init__(self, encoding: bytes) -> None:
        # The last encoding named was applied last and comes off first.
        self._layers = [_LAYERS[name]() for name in reversed(_names(encoding))]

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The decoded bytes that this chunk completes, in bounded pieces."""
        return _through(self._layers, chunk)

    def ended(self) -> bool:
        """Whether every layer has seen its end."""
        return all(layer.ended() for layer in self._layers)


def decode_body(body: bytes, encoding: bytes, limit_bytes: int) -> bytes:
    """A request body without its encodings (`gzip`, `deflate`, `br`, `zstd`, also several).

    Raises BodyTooLarge over `limit_bytes`, UnsupportedEncoding for other encodings, BadRequest for broken data.
    """
    decoder = ChunkDecoder(encoding)
    pieces = bytearray()
    try:
        for piece in decoder.feed(body):
            pieces += piece
            if len(pieces) > limit_bytes:
                raise BodyTooLarge(f"the request body is larger than {limit_bytes} bytes when decoded")
    except Corrupt as error:
        raise BadRequest(f"the body is not {encoding.decode('latin-1')!r} as its content-encoding says") from error
    if body and not decoder.ended():
        raise BadRequest(f"the body breaks off inside its content-encoding {encoding.decode('latin-1')!r}")
    return bytes(pieces)


def _names(encoding: bytes) -> list[bytes]:
    names = [name.strip().lower() for name in encoding.split(b",")]
    names = [name for name in names if name not in (b"", b"identity")]
    unknown = [name for name in names if name not in _LAYERS]
    if unknown or len(names) > _MAX_LAYERS:
        raise UnsupportedEncoding(
            f"content-encoding {encoding.decode('latin-1')!r}: expected gzip, deflate, br or zstd"
        )
    return names


def _through(layers: list[_Layer], data: bytes) -> Iterator[bytes]:
    if not layers:
        yield data
        return
    for piece in layers[0].feed(data):
        yield from _through(layers[1:], piece)


class _Zlib:
    """What zlib reads; of gzip several members in a row, as RFC 1952 allows."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._decoder = zlib.decompressobj(wbits)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._decoder.eof:
                # Zero padding after the last member is common; anything else must be another member.
                data = data.lstrip(b"\0")
                if not data or self._wbits != _GZIP:
                    return
                self._decoder = zlib.decompressobj(self._wbits)
            piece = self._inflate(data)
            data = self._decoder.unused_data if self._decoder.eof else self._decoder.unconsumed_tail
            if piece:
                yield piece
            elif not self._decoder.eof:
                return

    def ended(self) -> bool:
        return self._decoder.eof

    def _inflate(self, data: bytes) -> bytes:
        try:
            return self._decoder.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            raise Corrupt(str(error)) from error


class _Deflate:
    """RFC 9110 section 8.4.1.2: the zlib format; but some clients always sent raw deflate. The first two bytes tell."""

    def __init__(self) -> None:
        self._begun = b""
        self._inner: _Zlib | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            data = self._begun + data
            if len(data) < 2:
                self._begun = data
                return
            # RFC 1950 section 2.2: method 8 in the low four bits, and the pair is a multiple of 31.
            is_zlib = data[0] & 15 == 8 and (data[0] * 256 + data[1]) % 31 == 0
            self._inner = _Zlib(_ZLIB if is_zlib else _RAW)
        yield from self._inner.feed(data)

    def ended(self) -> bool:
        return self._inner is not None and self._inner.ended()


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            piece = self._decoder.process(data, output_buffer_limit=_PIECE_BYTES)
            while piece or not self._decoder.can_accept_more_data():
                yield piece
                piece = self._decoder.process(b"", output_buffer_limit=_PIECE_BYTES)
        except brotli.error as error:
            raise Corrupt(str(error)) from error

    def ended(self) -> bool:
        return bool(self._decoder.is_finished())


class _Zstd:
    """Several frames in a row are one body (RFC 8878 section 3)."""

    def __init__(self) -> None:
        self._decoder = _new_zstd()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._decoder.eof:
                self._decoder = _new_zstd()
            yield self._unpacked(data)
            while not (self._decoder.needs_input or self._decoder.eof):
                yield self._unpacked(b"")
            data = self._decoder.unused_data

    def ended(self) -> bool:
        return self._decoder.eof

    def _unpacked(self, data: bytes) -> bytes:
        try:
            return self._decoder.decompress(data, _PIECE_BYTES)
        except zstd.ZstdError as error:
            raise Corrupt(str(error)) from error


_GZIP, _ZLIB, _RAW = 31, 15, -15
_ZSTD_WINDOW_LOG = 23
"""8 MiB, what RFC 8878 asks a decoder to support; larger windows are refused."""


def _new_zstd() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})


_LAYERS: dict[bytes, Callable[[], _Layer]] = {
    b"gzip": lambda: _Zlib(_GZIP),
    b"x-gzip": lambda: _Zlib(_GZIP),
    b"deflate": _Deflate,
    b"br": _Brotli,
    b"zstd": _Zstd,
}
