"""A request's target (RFC 9112 section 3.2)."""

import httptools


def taken_apart(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target. Raises HttpParserInvalidURLError."""
    if url.startswith(b"/") and url.find(b"#") < 0:
        path, _, query = url.partition(b"?")
        return path, query
    parts = httptools.parse_url(url)
    return parts.path or b"/", parts.query or b""
