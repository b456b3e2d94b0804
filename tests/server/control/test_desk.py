import pytest
from starlette.routing import Route

from proxy.errors import StoreError
from tests.server.control.lodge import a_desk, asking

pytestmark = pytest.mark.anyio


async def answer_to(error, monkeypatch=None):
    async def page(_request):
        raise error

    async with asking(a_desk(), pages=[Route("/_proxy/broken", page)]) as http:
        return await http.get("/_proxy/broken")


async def test_a_store_that_does_not_answer_is_said_without_its_words():
    answer = await answer_to(StoreError("redis://user:hush@host failed"))

    assert answer.status_code == 503
    assert answer.json()["error"] == {"type": "store_error", "message": "the store does not answer"}


async def test_an_error_of_ours_quotes_nothing():
    answer = await answer_to(RuntimeError("hush"))

    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "proxy_error")
    assert "hush" not in answer.text


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/_proxy/api/nothing", 404), ("POST", "/metrics", 405)])
async def test_unknown_pages_and_methods_have_the_same_shape(method, path, status):
    async with asking(a_desk()) as http:
        answer = await http.request(method, path)

    assert (answer.status_code, answer.json()["error"]["type"]) == (status, "not_found_error")


@pytest.mark.parametrize("content", [b"", b"{", b'{"mode": "\xff"}', b"[" * 10_000])
async def test_a_body_that_is_no_json_is_refused(content):
    async with asking(a_desk()) as http:
        answer = await http.put("/_proxy/api/mode", content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert "expected" in answer.json()["error"]["message"]


async def test_a_body_is_bounded():
    async with asking(a_desk()) as http:
        content = b" " * (1024 * 1024 + 1)
        answer = await http.put("/_proxy/api/mode", content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 413


async def test_a_charset_may_be_named():
    async with asking(a_desk()) as http:
        headers = {"content-type": "application/json; charset=utf-8"}
        answer = await http.put("/_proxy/api/mode", content=b'{"mode": "off"}', headers=headers)

    assert answer.status_code == 200
