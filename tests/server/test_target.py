import httptools
import pytest

from proxy.server.target import taken_apart


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/v1/models", b"/v1/models", b""),
        (b"/v1?a=b?c", b"/v1", b"a=b?c"),
        (b"/v1#a?b", b"/v1", b""),
        (b"http://other.example/x?y", b"/x", b"y"),
        (b"http://other.example", b"/", b""),
        (b"*", b"*", b""),
    ],
)
def test_path_and_query_of_a_target(target, path, query):
    assert taken_apart(target) == (path, query)


def test_what_is_no_target_is_refused():
    with pytest.raises(httptools.HttpParserInvalidURLError):
        taken_apart(b"x y")
