import pytest

from proxy.errors import Unauthorised
from proxy.server.keys import KeyRing, with_own_key

RING = KeyRing(["alice=px-1", "px-2", "bob=px-3=="])


@pytest.mark.parametrize(("key", "name"), [(b"px-1", "alice"), (b"px-3==", "bob")])
def test_key_is_known_by_its_name(key, name):
    assert RING.check([(b"x-proxy-key", key)], b"", own_api_key=False) == name


def test_key_without_a_name_gets_one_that_does_not_show_it():
    name = RING.check([(b"x-proxy-key", b"px-2")], b"", own_api_key=False)

    assert name.startswith("key-")
    assert "px-2" not in name


def test_without_configured_keys_nobody_needs_one():
    assert KeyRing([]).check([], b"", own_api_key=False) == ""


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x-proxy-key", b"")],
        [(b"x-proxy-key", b"px-")],
        [(b"x-proxy-key", b"px-1 ")],
        [(b"x-proxy-key", b"alice=px-1")],
        [(b"authorization", b"Bearer px-1")],
        [(b"x-api-key", b"px-1")],
    ],
)
def test_nothing_else_opens_the_door(headers):
    with pytest.raises(Unauthorised) as caught:
        RING.check(headers, b"key=px-1", own_api_key=False)

    assert "px-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([(b"authorization", b"Bearer px-1")], b""),
        ([(b"authorization", b"bearer  px-1")], b""),
        ([(b"x-api-key", b"px-1")], b""),
        ([(b"api-key", b"px-1")], b""),
        ([(b"x-goog-api-key", b"px-1")], b""),
        ([], b"alt=sse&key=px-1"),
        ([(b"authorization", b"Bearer other"), (b"x-proxy-key", b"px-1")], b""),
    ],
)
def test_where_the_upstream_has_its_own_key_the_proxy_key_may_come_as_api_key(headers, query):
    assert RING.check(headers, query, own_api_key=True) == "alice"


@pytest.mark.parametrize(
    ("upstream", "came", "goes"),
    [
        ("openai", [(b"authorization", b"Bearer px-1")], (b"authorization", b"Bearer sk-own")),
        ("openai", [], (b"authorization", b"Bearer sk-own")),
        ("anthropic", [(b"authorization", b"Bearer px-1")], (b"x-api-key", b"sk-own")),
        ("gemini", [(b"x-goog-api-key", b"px-1")], (b"x-goog-api-key", b"sk-own")),
        ("azure", [(b"api-key", b"px-1")], (b"api-key", b"sk-own")),
        ("mine", [(b"x-api-key", b"px-1")], (b"x-api-key", b"sk-own")),
    ],
)
def test_own_key_takes_the_place_of_the_clients(upstream, came, goes):
    headers, query = with_own_key(
        [(b"accept", b"*/*"), *came], b"alt=sse&key=px-1&%6bey=px-1&x=%20", upstream_name=upstream, api_key="sk-own"
    )

    assert headers == [(b"accept", b"*/*"), goes]
    assert query == b"alt=sse&x=%20"
