import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.images import size_of, size_of_base64


def a_png(width, height):
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


def a_gif(width, height):
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00\x00\x00"


def a_jpeg(width, height, *, before=b"", frame=0xC0):
    jfif = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    start = bytes((0xFF, frame)) + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + jfif + before + start + b"\xff\xda"


def a_profile(length):
    return b"\xff\xe2" + struct.pack(">H", length + 2) + bytes(length)


def a_webp(kind, payload):
    return b"RIFF" + bytes(4) + b"WEBP" + kind + struct.pack("<I", len(payload)) + payload


def a_lossy_webp(width, height):
    return a_webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height))


def a_lossless_webp(width, height):
    return a_webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def an_extended_webp(width, height):
    return a_webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


MAKERS = [a_png, a_gif, a_jpeg, a_lossy_webp, a_lossless_webp, an_extended_webp]


@pytest.mark.parametrize("make", MAKERS)
@given(width=st.integers(1, 16383), height=st.integers(1, 16383))
def test_every_format_tells_its_size(make, width, height):
    picture = make(width, height)

    assert size_of(picture) == (width, height)
    assert size_of_base64(base64.b64encode(picture).decode()) == (width, height)


@pytest.mark.parametrize("make", MAKERS)
def test_a_cut_header_is_none_or_the_right_size(make):
    whole = make(640, 480)

    assert {size_of(whole[:end]) for end in range(len(whole) + 1)} == {None, (640, 480)}


def test_a_jpeg_frame_behind_a_colour_profile_is_found():
    picture = a_jpeg(1920, 1080, before=a_profile(30_000))

    assert size_of_base64(base64.b64encode(picture).decode()) == (1920, 1080)


def test_a_progressive_jpeg_with_fill_bytes_is_read():
    assert size_of(a_jpeg(31, 17, before=b"\xff\xff\x01", frame=0xC2)) == (31, 17)


def test_a_huffman_table_is_not_mistaken_for_a_frame():
    table = b"\xff\xc4" + struct.pack(">H", 19) + bytes(17)

    assert size_of(a_jpeg(31, 17, before=table)) == (31, 17)


def test_a_data_url_is_read_behind_its_comma():
    url = "data:image/png;base64," + base64.b64encode(a_png(12, 34) + bytes(5000)).decode()

    assert size_of_base64(url) == (12, 34)


def test_url_safe_base64_is_read():
    picture = a_jpeg(1023, 1023)

    assert size_of_base64(base64.urlsafe_b64encode(picture).decode()) == (1023, 1023)


@pytest.mark.parametrize("text", ["", "%%%", "not base64 at all", "data:image/png", "AAAA", "\ud800", "é" * 8])
def test_nonsense_has_no_size(text):
    assert size_of_base64(text) is None


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(raw):
    size = size_of(raw)

    assert size is None or min(size) > 0
