import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import Media
from proxy.tokens.media import MOST_MEDIA_TOKENS, UNKNOWN_MEDIA_TOKENS, media_tokens


def a_picture(width, height, detail=""):
    return Media(kind="image", width=width, height=height, detail=detail)


@pytest.mark.parametrize(
    ("model", "picture", "low", "high"),
    [
        # Recorded usage, less the text of the request.
        ("claude-3-7-sonnet", a_picture(540, 360), 250, 276),
        ("claude-sonnet-4-5", a_picture(1001, 1001), 1290, 1340),
        ("gpt-5", a_picture(50, 50), 210, 210),
        ("gpt-4.1-nano", a_picture(540, 360), 495, 515),
        ("gpt-5-mini", a_picture(540, 360), 240, 280),
        ("gemini-3-pro-preview", a_picture(597, 566), 1090, 1120),
        # Published examples.
        ("gpt-4o", a_picture(1024, 1024), 765, 765),
        ("gpt-4o", a_picture(2048, 4096), 1105, 1105),
        ("gpt-4o", a_picture(4096, 8192, "low"), 85, 85),
        ("gpt-4o-mini", a_picture(100, 100, "low"), 2833, 2833),
        ("o3", a_picture(512, 512), 225, 225),
        ("computer-use-preview", a_picture(512, 512), 194, 194),
        ("gpt-4.1-mini", a_picture(4000, 4000), 2489, 2489),
        ("o4-mini", a_picture(1024, 1024), 1762, 1762),
        ("gemini-2.5-flash", a_picture(300, 300), 258, 258),
        ("gemini-2.5-flash", a_picture(10_000, 10_000), 258, 258),
        ("gemini-2.0-flash", a_picture(540, 360), 1806, 1806),
        ("gemini-2.0-flash", a_picture(300, 300), 258, 258),
        ("gemini-2.0-flash", a_picture(10_000, 10_000), 4386, 4386),
        ("gemini-3-pro-preview", a_picture(10, 10, "media_resolution_low"), 280, 280),
        ("claude-sonnet-4-5", a_picture(8000, 8000), 1600, 1600),
        ("claude-opus-4-7", a_picture(8000, 8000), 4784, 4784),
        ("pixtral-12b", a_picture(597, 566), 1200, 1400),
        ("qwen2.5-vl-72b", a_picture(597, 566), 400, 470),
        ("some-model", a_picture(1024, 1024), 765, 765),
    ],
)
def test_a_picture_costs_what_its_provider_says(model, picture, low, high):
    assert low <= media_tokens(picture, model=model) <= high


@pytest.mark.parametrize(
    ("media", "tokens"),
    [
        (Media(kind="image"), UNKNOWN_MEDIA_TOKENS),
        (Media(kind="image", width=0, height=5), UNKNOWN_MEDIA_TOKENS),
        (Media(kind="audio"), UNKNOWN_MEDIA_TOKENS),
        (Media(kind="audio", size_bytes=60_000), 60),
        (Media(kind="audio", size_bytes=10**9), MOST_MEDIA_TOKENS),
        (Media(kind="video", size_bytes=10**9), MOST_MEDIA_TOKENS),
        (Media(kind="file", reference="file-1"), UNKNOWN_MEDIA_TOKENS),
        (Media(kind="file", size_bytes=5_000), 100),
        (Media(kind="file", size_bytes=10**9), MOST_MEDIA_TOKENS),
    ],
)
def test_what_the_request_does_not_tell_is_bounded(media, tokens):
    assert media_tokens(media, model="gpt-4o") == tokens


@given(
    st.sampled_from(
        ["gpt-4o", "gpt-5-mini", "claude-opus-5", "gemini-2.0-flash", "gemini-3-pro", "pixtral", "qwen-vl", ""]
    ),
    st.integers(1, 10**7),
    st.integers(1, 10**7),
)
def test_no_picture_costs_more_than_its_family_allows(model, width, height):
    assert 1 <= media_tokens(a_picture(width, height), model=model) <= 4784
