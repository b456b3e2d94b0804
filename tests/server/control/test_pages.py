"""The dashboard's files, and who may have them."""

import re

import pytest

from proxy.server.control import pages
from tests.server.control.lodge import a_desk, asking

pytestmark = pytest.mark.anyio

FILES = pages.files()
TEXTS = {name: page.content.decode() for name, page in FILES.items()}


def browsing(*, client="127.0.0.1", host="127.0.0.1", **server):
    return asking(a_desk(**server), client=(client, 5000), host=host, pages=pages.routes())


async def test_the_page_is_served_under_a_strict_policy():
    async with browsing() as http:
        answer = await http.get("/_proxy/")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-frame-options"] == "DENY"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_without_the_slash_one_is_led_there():
    async with browsing() as http:
        answer = await http.get("/_proxy")

    assert (answer.status_code, answer.headers["location"]) == (308, "/_proxy/")


async def test_from_the_bare_address_one_is_led_there_this_time():
    async with browsing() as http:
        answer = await http.get("/")

    assert (answer.status_code, answer.headers["location"]) == (307, "/_proxy/")


@pytest.mark.parametrize("name", sorted(FILES))
async def test_each_file_is_served_and_asked_for_anew(name):
    async with browsing() as http:
        answer = await http.get(f"/_proxy/static/{name}")
        again = await http.get(f"/_proxy/static/{name}", headers={"if-none-match": answer.headers["etag"]})

    assert answer.content == FILES[name].content
    assert answer.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", answer.headers["etag"])


@pytest.mark.parametrize("path", ["nothing.js", "../dashboard.py", "%2e%2e/dashboard.py", "views/", ""])
async def test_there_is_nothing_else(path):
    async with browsing() as http:
        answer = await http.get(f"/_proxy/static/{path}")

    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "not_found_error"


async def test_from_elsewhere_the_files_come_only_where_there_is_a_token_to_ask_for():
    for path in ("/_proxy/", "/_proxy", "/_proxy/static/app.js"):
        async with browsing(client="10.0.0.5", host="proxy.example") as http:
            assert (await http.get(path)).status_code == 401
        async with browsing(client="10.0.0.5", host="proxy.example", admin_token="secret") as http:
            assert (await http.get(path)).status_code in (200, 308)
            assert (await http.post(path)).status_code == 401
            assert (await http.get("/_proxy/api/sessions")).status_code == 401
            assert (await http.get("/_proxy/static/../api/sessions")).status_code == 401


def test_every_file_that_one_names_is_there():
    named = re.findall(r'(?:href|src)="static/([^"]+)"', TEXTS["index.html"])
    assert {"app.js", "style.css", "parts.css", "theme.js", "icon.svg"} <= set(named)
    for name, text in TEXTS.items():
        folder = name.rpartition("/")[0]
        for path in re.findall(r'from "([^"]+)"', text):
            parts = [part for part in f"{folder}/{path}".split("/") if part not in ("", ".")]
            while ".." in parts:
                at = parts.index("..")
                del parts[at - 1 : at + 1]
            named.append("/".join(parts))

    assert set(named) == set(FILES) - {"index.html"}


def test_nothing_comes_from_another_host():
    addresses = {address for text in TEXTS.values() for address in re.findall(r"https?://[^\s\"')]+", text)}

    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_nothing_is_inline_and_no_text_becomes_markup():
    page = TEXTS["index.html"]

    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page) == []
    assert [name for name, text in TEXTS.items() if re.search(r"innerHTML|outerHTML|insertAdjacent|eval\(", text)] == []


def test_the_token_stays_in_the_tab_and_out_of_addresses():
    api = TEXTS["api.js"]

    assert "sessionStorage.setItem(TOKEN" in api
    assert "authorization: `Bearer ${token}`" in api
    assert [
        name for name, text in TEXTS.items() if re.search(r"token=|localStorage.*TOKEN|document\.cookie", text)
    ] == []
