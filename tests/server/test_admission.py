import asyncio
import gc

import pytest

from proxy.errors import BadRequest, BodyTooLarge, Unauthorised, UnknownUpstream, UpgradeRefused
from proxy.server.admission import Admitted, Door, kept
from proxy.settings.values import Server, Settings, Upstream
from proxy.wire.path import route
from tests.server.clients import a_call, a_client, a_proxy
from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LIMIT = 1024 * 1024
KEY = (b"authorization", b"Bearer sk-1")


def a_scope(*headers, method="POST", path=b"/v1/x", query=b"", length=b"2"):
    told = () if length is None else ((b"content-length", length),)
    headers = [(b"host", b"p"), *told, *headers]
    return {"method": method, "raw_path": path, "query_string": query, "headers": headers}


def a_door(*, server=None, **upstream):
    there = Upstream(base_url="http://there/", **upstream)
    return Door(Settings(server=Server(max_body_mb=1, **(server or {})), upstreams={"openai": there}))


def admitted(scope, door=None):
    return (door or a_door()).admit(scope, route(scope["raw_path"].decode()))


def fits(scope, first=None):
    first = first or a_scope(KEY)
    return kept(first, admitted(first)).fits(scope, LIMIT)


# Who comes in


def test_what_follows_from_a_head():
    found = admitted(
        a_scope(KEY, (b"x-a", b"1"), (b"x-a", b"2"), (b"connection", b"x-b"), (b"x-b", b"3"), query=b"a=b")
    )

    assert found.named == {
        b"host": b"p",
        b"authorization": b"Bearer sk-1",
        b"x-a": b"1",
        b"connection": b"x-b",
        b"x-b": b"3",
    }
    assert found.headers == [KEY, (b"x-a", b"1"), (b"x-a", b"2")]
    assert found.lines == b"authorization: Bearer sk-1\r\nx-a: 1\r\nx-a: 2\r\n"
    assert (found.target, found.query, found.way.url_base) == (b"/v1/x?a=b", b"a=b", "http://there")
    assert (found.route.upstream_name, found.key_name) == ("openai", "")
    assert found.caller() == found.caller() != admitted(a_scope()).caller() == ""


def test_upstreams_own_key_stands_where_the_clients_stood_and_names_nobody():
    found = admitted(a_scope(KEY, query=b"key=sk-1&a=b"), a_door(api_key="sk-own"))

    assert found.headers == [(b"authorization", b"Bearer sk-own")]
    assert found.lines == b"authorization: Bearer sk-own\r\n"
    assert (found.target, found.query) == (b"/v1/x?a=b", b"a=b")


def test_proxy_key_that_came_names_the_caller():
    door = a_door(server={"require_keys": ("me=px-1",)})
    found = admitted(a_scope((b"x-proxy-key", b"px-1")), door)

    assert (found.key_name, found.caller(), found.headers) == ("me", "key:me", [])
    with pytest.raises(Unauthorised):
        admitted(a_scope((b"x-proxy-key", b"px-2")), door)


@pytest.mark.parametrize(
    ("scope", "error"),
    [
        (a_scope(path=b"/up/nobody/v1/x"), UnknownUpstream),
        (a_scope((b"x-base-url", b"http://x")), BadRequest),
        (a_scope((b"upgrade", b"websocket")), UpgradeRefused),
        (a_scope(length=b"%d" % (LIMIT + 1)), BodyTooLarge),
    ],
)
def test_what_is_refused(scope, error):
    with pytest.raises(error):
        admitted(scope)


def test_body_as_large_as_the_limit_comes_in():
    assert admitted(a_scope(length=b"%d" % LIMIT)).route.upstream_name == "openai"


# What the next call says once more


@pytest.mark.parametrize("length", [b"2", b"0", b"12345", b"%d" % LIMIT])
def test_length_of_the_body_may_be_another(length):
    assert fits(a_scope(KEY, length=length))


@pytest.mark.parametrize(
    "scope",
    [
        a_scope(),
        a_scope((b"authorization", b"Bearer sk-2")),
        a_scope(KEY, (b"x-a", b"1")),
        a_scope(KEY, KEY),
        a_scope(KEY, length=None),
        a_scope(length=None),
        a_scope(KEY, (b"content-length", b"2")),
        a_scope((b"content-lengt", b"2"), KEY, length=None),
        a_scope((b"transfer-encoding", b"chunked"), KEY, length=None),
        a_scope(KEY, (b"transfer-encoding", b"chunked")),
        a_scope(KEY, length=b"+2"),
        a_scope(KEY, length=b"1_0"),
        a_scope(KEY, length=b""),
        a_scope(KEY, length=b"2".zfill(5000)),
        a_scope(KEY, length=b"%d" % (LIMIT + 1)),
        a_scope(KEY, method="PUT"),
        a_scope(KEY, path=b"/v1/y"),
        a_scope(KEY, query=b"key=1"),
        {**a_scope(KEY), "headers": []},
        {**a_scope(KEY), "headers": [(b"host", b"p")]},
        {**a_scope(KEY), "headers": [(b"content-length", b"2"), (b"host", b"p"), KEY]},
    ],
)
def test_everything_else_must_be_the_same(scope):
    assert not fits(scope)


@pytest.mark.parametrize(
    "scope",
    [
        a_scope(length=None),
        a_scope((b"transfer-encoding", b"chunked"), length=None),
        a_scope((b"content-length", b"2")),
        a_scope((b"x-a", b"1" * 9000)),
        a_scope(query=b"a" * 9000),
    ],
)
def test_heads_without_one_length_and_large_ones_are_not_kept(scope):
    assert kept(scope, admitted(scope)) is None


async def test_each_call_of_a_connection_is_its_own():
    """Same, another length, another key, another path, refused, and the first once more."""
    one, other = ("authorization: Bearer sk-1",), ("authorization: Bearer sk-2",)
    seen = []

    async def handler(exchange):
        seen.append(exchange.admitted.caller())
        await exchange.respond(await exchange.send_upstream(await exchange.read_body()))

    calls = [
        (a_call(b"{}", headers=one), 200),
        (a_call(b"{}", headers=one), 200),
        (a_call(b"{ }", headers=one), 200),
        (a_call(b"", headers=one), 200),
        (a_call(b"{}", headers=other), 200),
        (a_call(b"{}", headers=other, path="/v1/y"), 200),
        (a_call(b"{}", headers=(*other, "x-base-url: x")), 400),
        (a_call(b"{}", headers=one), 200),
    ]
    async with (
        raw_server(answering(OK)) as server,
        a_proxy(server.url, handler=handler) as base,
        a_client(base) as client,
    ):
        for call, expected in calls:
            await client.send(call)
            status, headers = await client.head()
            await client.body(headers)
            assert status == expected

    keys = [b"sk-1" if b"sk-1" in head else b"sk-2" for head in server.heads]
    assert keys == [b"sk-1"] * 4 + [b"sk-2"] * 2 + [b"sk-1"]
    assert [head.split(b" ")[1] for head in server.heads] == [b"/v1/chat/completions"] * 5 + [
        b"/v1/y",
        b"/v1/chat/completions",
    ]
    assert [head.lower().count(b"content-length: ") for head in server.heads] == [1] * 7
    assert len(set(seen[:4] + seen[6:])) == len(set(seen[4:6])) == 1
    assert seen[0] != seen[4]


def heads():
    return sum(isinstance(thing, Admitted) for thing in gc.get_objects())


async def test_what_is_kept_is_let_go_with_its_connection():
    gc.collect()
    before = heads()
    gc.disable()
    try:
        async with raw_server(answering(OK)) as server, a_proxy(server.url) as base:
            async with a_client(base) as client:
                for _ in range(2):
                    await client.send(a_call())
                    await client.body((await client.head())[1])
                assert heads() == before + 1
            while heads() > before:
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
