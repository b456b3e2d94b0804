import pytest

from proxy.server.control.guard import Guard
from tests.server.control.lodge import a_desk, asking

pytestmark = pytest.mark.anyio

TOKEN = {"authorization": "Bearer secret"}
PAGE = "/_proxy/api/mode"


async def status_of(*, client="127.0.0.1", host="127.0.0.1", method="GET", headers=(), path=PAGE, **server):
    async with asking(a_desk(**server), client=(client, 5000), host=host) as http:
        answer = await http.request(
            method, path, headers=dict(headers), json={"mode": "off"} if method == "PUT" else None
        )
        return answer.status_code


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
async def test_this_machine_may_look(client):
    assert await status_of(client=client) == 200


@pytest.mark.parametrize("client", ["10.0.0.5", "192.168.1.2", "2001:db8::1", "::ffff:10.0.0.5", "testclient"])
async def test_nobody_else_may_without_the_token(client):
    assert await status_of(client=client) == 401
    assert await status_of(client=client, admin_token="secret") == 401
    assert await status_of(client=client, admin_token="secret", headers=TOKEN) == 200


@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer ", "secret", "Basic secret", "Bearer secret2", ""])
async def test_a_wrong_token_is_none(given):
    headers = {"authorization": given} if given else {}
    assert await status_of(client="10.0.0.5", admin_token="secret", headers=headers) == 401


async def test_an_empty_token_opens_nothing():
    assert await status_of(client="10.0.0.5", headers={"authorization": "Bearer "}) == 401


@pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded", "x-real-ip", "via", "x-forwarded-host"])
async def test_a_forwarded_request_is_nobodys_local_one(name):
    assert await status_of(headers={name: "127.0.0.1"}) == 401
    assert await status_of(headers={name: "127.0.0.1"} | TOKEN, admin_token="secret") == 200


async def test_what_a_header_says_about_the_address_does_not_count():
    assert await status_of(client="10.0.0.5", headers={"x-forwarded-for": "127.0.0.1"}) == 401


# DNS rebinding: a foreign name that resolves to this machine


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "[::1]", "app.localhost"])
async def test_own_names_are_fine(host):
    assert await status_of(host=host) == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.5"])
async def test_a_foreign_name_is_refused(host):
    assert await status_of(host=host) == 403


async def test_the_configured_name_is_ours():
    assert await status_of(host="proxy.internal") == 403
    desk = a_desk(host="proxy.internal")
    async with asking(desk, host="proxy.internal") as http:
        assert (await http.get(PAGE)).status_code == 200


async def test_a_bearer_of_the_token_may_use_any_name():
    assert await status_of(host="proxy.example", admin_token="secret", headers=TOKEN) == 200


@pytest.mark.parametrize("host", [b"", b"[::1", b"\xff\xfe"])
async def test_a_broken_host_is_refused(host):
    guard = Guard(lambda *_: None, token="", host="127.0.0.1")
    scope = {"path": PAGE, "method": "GET", "client": ("127.0.0.1", 1), "headers": [(b"host", host)]}

    assert "Host" in guard.refusal(scope)


async def test_a_request_without_a_connections_address_is_not_local():
    guard = Guard(lambda *_: None, token="", host="127.0.0.1")
    scope = {"path": PAGE, "method": "GET", "client": None, "headers": [(b"host", b"localhost")]}

    assert guard.refusal(scope)


# Cross-site writes


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:8787"}, 200),
        ({"origin": "http://127.0.0.1:8787", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_only_a_page_of_the_same_origin_may_change_something(headers, status):
    assert await status_of(method="PUT", headers=headers) == status


async def test_reading_needs_no_origin():
    assert await status_of(headers={"origin": "http://evil.example"}) == 200


# What comes back


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_open_to_all(path):
    assert await status_of(client="10.0.0.5", host="lb.example", path=path) == 200


@pytest.mark.parametrize("path", ["/metrics", "/_proxy/api/sessions", "/_proxy/openapi.json", "/_proxy/api/events"])
async def test_everything_else_is_guarded(path):
    assert await status_of(client="10.0.0.5", path=path) == 401


@pytest.mark.parametrize("client", ["127.0.0.1", "10.0.0.5"])
async def test_nothing_is_stored_by_anyone_on_the_way(client):
    async with asking(a_desk(), client=(client, 1)) as http:
        answer = await http.get(PAGE)

    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


async def test_a_refusal_says_how_to_get_in_and_nothing_more():
    async with asking(a_desk(admin_token="secret"), client=("10.0.0.5", 1)) as http:
        answer = await http.get("/_proxy/api/sessions/abc?x=hush")

    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["type"] == "authentication_error"
    assert "hush" not in answer.text
    assert "secret" not in answer.text
