import json
from base64 import urlsafe_b64encode

import pytest

from proxy.server.caller import caller_of


def caller(*headers, query=b"", key_name=""):
    return caller_of(dict(headers), query, key_name=key_name)


def a_token(**claims):
    parts = ({"alg": "RS256"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b"Bearer " + b".".join([*encoded, b"signature"])


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"])
def test_each_credential_header_tells_callers_apart(name):
    one, other = caller((name, b"sk-one")), caller((name, b"sk-two"))

    assert one != other
    assert one == caller((name, b"sk-one"), (b"user-agent", b"x"))
    assert "sk-one" not in one


def test_a_key_in_the_query_counts_where_no_header_has_one():
    assert caller(query=b"alt=sse&key=a") == caller(query=b"key=a") != caller(query=b"key=b")
    assert caller((b"x-goog-api-key", b"k"), query=b"key=a") == caller((b"x-goog-api-key", b"k"), query=b"key=b")


def test_the_proxy_keys_name_wins_over_what_goes_upstream():
    assert caller((b"authorization", b"Bearer x"), key_name="anna") == "key:anna"


def test_without_a_credential_there_is_one_caller():
    assert caller() == caller(query=b"monkey=1") == ""


def test_a_token_that_rotates_stays_the_same_caller():
    one = a_token(iss="https://issuer", sub="user-1", exp=1)
    later = a_token(iss="https://issuer", sub="user-1", exp=2)
    other = a_token(iss="https://issuer", sub="user-2", exp=1)

    assert caller((b"authorization", one)) == caller((b"authorization", later))
    assert caller((b"authorization", one)) != caller((b"authorization", other))


@pytest.mark.parametrize(
    "token",
    [
        a_token(sub="only"),
        b"Bearer eyJhbGciOiJub25lIn0.!!!.x",
        b"Bearer eyJx.bm90IGpzb24.x",
        b"Bearer eyJx.WzFd.x",
        b"Bearer a.b.c",
        b"eyJ.b",
    ],
)
def test_what_only_looks_like_a_token_counts_as_it_stands(token):
    assert caller((b"authorization", token))
    assert caller((b"authorization", token)) != caller((b"authorization", token + b"x"))
