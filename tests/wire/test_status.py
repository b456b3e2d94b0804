import pytest

from proxy.wire.status import STATUS_LINES


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (200, b"HTTP/1.1 200 OK"),
        (404, b"HTTP/1.1 404 Not Found"),
        (529, b"HTTP/1.1 529 "),
        (599, b"HTTP/1.1 599 "),
    ],
)
def test_unknown_status_has_no_phrase(status, line):
    assert STATUS_LINES[status] == line


def test_every_final_status_has_a_line():
    assert list(STATUS_LINES) == list(range(200, 600))
