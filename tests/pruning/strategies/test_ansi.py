import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.pruning.strategies.ansi import ansi


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[1;32mok\x1b[0m", "ok"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2K\x1b[1Gdone", "done"),
        ("10%\r50%\r100%\nready", "100%\nready"),
        # line ends of another system are no overwriting
        ("a\r\nb\r\n", "a\r\nb\r\n"),
        ("last\r", "last\r"),
        ("plain", "plain"),
    ],
)
def test_what_a_person_saw_stays(text, seen):
    assert ansi(text) == seen


@given(st.text())
def test_text_without_codes_is_the_same_object(text):
    if "\x1b" not in text and "\r" not in text:
        assert ansi(text) is text


@pytest.mark.parametrize("text", ["a\r\n" + "x" * 500_000, "x" * 500_000 + "\r", "\x1b[" * 200_000])
def test_a_line_as_long_as_a_file_takes_no_time(text):
    started = time.process_time()

    assert ansi(text) == text
    assert time.process_time() - started < 0.5
