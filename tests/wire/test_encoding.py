import gzip
import itertools
import tracemalloc
import zlib

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.errors import BadRequest, BodyTooLarge, UnsupportedEncoding
from proxy.wire.encoding import ChunkDecoder, Corrupt, decode_body, zstd

MB = 1024 * 1024


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def streamed_zstd(data):
    """As a client writes it that does not know the size beforehand, in two frames."""
    packer = zstd.ZstdCompressor(level=3)
    half = len(data) // 2
    return packer.compress(data[:half], packer.FLUSH_FRAME) + packer.compress(data[half:], packer.FLUSH_FRAME)


PACKERS = {
    "gzip": (b"gzip", gzip.compress),
    "gzip with upper case": (b"GZip", gzip.compress),
    "gzip in two members": (b"gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
    "gzip with padding": (b"gzip", lambda data: gzip.compress(data) + b"\0" * 16),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
    "br": (b"br", brotli.compress),
    "zstd": (b"zstd", zstd.compress),
    "zstd in two frames": (b"zstd", streamed_zstd),
    "several": (b"gzip, identity, br", lambda data: brotli.compress(gzip.compress(data))),
    "none": (b"identity", bytes),
}
each_packer = pytest.mark.parametrize(("encoding", "pack"), PACKERS.values(), ids=PACKERS)


@each_packer
def test_body_is_what_was_packed(encoding, pack):
    body = b'{"messages": ["' + bytes(range(32, 127)) * 20_000 + b'"]}'

    assert decode_body(pack(body), encoding, 8 * MB) == body


@each_packer
@settings(max_examples=30, deadline=None)
@given(data=st.binary(min_size=1, max_size=2000), cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_answer_cut_anywhere_reads_the_same(encoding, pack, data, cuts):
    packed = pack(data)
    decoder = ChunkDecoder(encoding)
    marks = [0, *sorted(min(cut, len(packed)) for cut in cuts), len(packed)]
    read = b"".join(b"".join(decoder.feed(packed[a:b])) for a, b in itertools.pairwise(marks))

    assert read == data
    assert decoder.ended()


@each_packer
def test_answer_is_read_as_far_as_it_came(encoding, pack):
    """A stream's events must be seen when they come: every encoder here flushes at the end of its data."""
    packed = pack(b"x" * 100)
    decoder = ChunkDecoder(encoding)

    assert b"".join(b"".join(decoder.feed(packed[i : i + 1])) for i in range(len(packed))) == b"x" * 100


def test_flushed_events_come_out_at_once():
    packer = zlib.compressobj(wbits=31)
    decoder = ChunkDecoder(b"gzip")

    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        sent = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.feed(sent)) == event
    assert not decoder.ended()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        (b"gzip", gzip.compress),
        (b"deflate", zlib.compress),
        (b"br", brotli.compress),
        (b"zstd", zstd.compress),
        (b"gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    ],
)
def test_bomb_is_refused_without_being_held(encoding, pack):
    bomb = pack(b" " * (64 * MB))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            decode_body(bomb, encoding, 2 * MB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10 * MB


def test_body_of_exactly_the_limit_passes():
    assert len(decode_body(gzip.compress(b"x" * MB), b"gzip", MB)) == MB
    with pytest.raises(BodyTooLarge):
        decode_body(gzip.compress(b"x" * (MB + 1)), b"gzip", MB)


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_data_that_is_not_what_it_says_is_the_clients_fault(encoding):
    with pytest.raises(BadRequest):
        decode_body(b"plain text, not packed at all", encoding, MB)
    with pytest.raises(Corrupt):
        list(ChunkDecoder(encoding).feed(b"plain text, not packed at all"))


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_body_that_breaks_off_is_refused(pack):
    encoding = b"gzip" if pack is gzip.compress else b"deflate"
    with pytest.raises(BadRequest):
        decode_body(pack(b"some body")[:-3], encoding, MB)


@pytest.mark.parametrize("encoding", [b"compress", b"gzip, aes128gcm", b"gzip, gzip, gzip, gzip, gzip"])
def test_unknown_encodings_and_towers_of_them_are_refused(encoding):
    with pytest.raises(UnsupportedEncoding):
        decode_body(b"x", encoding, MB)


def test_empty_body_needs_no_encoding():
    assert decode_body(b"", b"gzip", MB) == b""


def test_what_stands_between_frames_of_zstd_is_skipped():
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"

    assert decode_body(skipped + zstd.compress(b"ab") + skipped + zstd.compress(b"c"), b"zstd", MB) == b"abc"


def test_zstd_that_wants_more_memory_than_a_decoder_must_have_is_refused():
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 24})
    # Streamed, so that the frame does not say that it needs less.
    packed = packer.compress(b"a" * MB) + packer.compress(b"b", packer.FLUSH_FRAME)

    with pytest.raises(BadRequest):
        decode_body(packed, b"zstd", 8 * MB)
