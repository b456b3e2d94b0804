from base64 import b64encode

import pytest

from proxy.conversation.model import Media
from proxy.dialects.media import from_audio, from_base64, from_file, from_url, with_text

PNG = b64encode(
    b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4) + b"\x08\2\0\0\0" * 40
).decode()


def test_an_inline_picture_tells_its_sides():
    assert from_url("image", "data:image/png;base64," + PNG, detail="low") == Media(
        kind="image", width=640, height=480, detail="low", size_bytes=len(PNG) * 3 // 4
    )
    assert from_base64("image", PNG) == from_url("image", "data:image/png;base64," + PNG)


def test_a_url_is_a_reference_of_bounded_length():
    assert from_url("image", "https://example.org/a.png") == Media(kind="image", reference="https://example.org/a.png")
    assert from_url("image", "https://example.org/?x=;base64,abc").reference.startswith("https:")
    assert len(from_url("video", "https://example.org/" + "x" * 1000).reference) == 256


@pytest.mark.parametrize("payload", ["", "!!!", "AAAA", "\u00e9\ud83d", "AAAA" * 1000])
def test_a_picture_that_cannot_be_read_has_no_sides_but_a_size(payload):
    media = from_base64("image", payload)

    assert (media.width, media.height) == (None, None)
    assert media.size_bytes == len(payload) * 3 // 4


def test_only_pictures_have_sides():
    assert from_base64("audio", PNG).width is None


@pytest.mark.parametrize(
    ("file", "media"),
    [
        ({"file_id": "file-1"}, Media(kind="file", reference="file-1")),
        ({"file_url": "https://example.org/a.pdf"}, Media(kind="file", reference="https://example.org/a.pdf")),
        ({"file_data": "data:application/pdf;base64,AAAA"}, Media(kind="file", size_bytes=3)),
        # Some clients leave the head of the data URL out.
        ({"file_data": "AAAA"}, Media(kind="file", size_bytes=3)),
        ({"file_data": None, "file_id": "f"}, Media(kind="file", reference="f")),
        ({}, Media(kind="file")),
        (None, Media(kind="file")),
        ("text", Media(kind="file")),
    ],
)
def test_a_file_is_read_from_its_id_its_bytes_or_its_url(file, media):
    assert from_file(file) == media


@pytest.mark.parametrize(
    ("audio", "media"),
    [
        ({"data": "AAAA", "format": "wav"}, Media(kind="audio", size_bytes=3)),
        ({"id": "audio_1"}, Media(kind="audio")),
        ({"data": 7}, Media(kind="audio")),
        (None, Media(kind="audio")),
    ],
)
def test_audio_tells_its_size_where_it_is_inline(audio, media):
    assert from_audio(audio) == media


@pytest.mark.parametrize(
    ("old", "stays", "new"),
    [
        (b'[ "a" , {"i" : 1},"b" ]', [False, True, False], b'["new",{"i" : 1}]'),
        (b'[{"i" : 1}, "a","b"]', [True, False, False], b'[{"i" : 1},"new"]'),
        (b'[{"i" : 1}, 2]', [True, True], b'[{"i" : 1},2,"new"]'),
        (b'["a", {"i" : 1}]', [False, False], b'["new"]'),
        (b"[]", [], b'["new"]'),
    ],
)
def test_a_text_takes_the_place_of_all_that_does_not_stay(old, stays, new):
    assert with_text(b"x:" + old, (2, 2 + len(old)), b'"new"', stays) == new
