"""First lines of answers."""

import http


def _status_line(status: int) -> bytes:
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}".encode()


STATUS_LINES = {status: _status_line(status) for status in range(200, 600)}
"""By the status of a final answer."""
