import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.server.control.lodge import a_desk, a_lodge, asking

pytestmark = pytest.mark.anyio


async def test_further_pages_stand_behind_the_same_guard():
    async def page(_request):
        return PlainTextResponse("home")

    home = Route("/_proxy/", page)
    async with asking(a_desk(), pages=[home]) as http:
        assert (await http.get("/_proxy/")).text == "home"
    async with asking(a_desk(), pages=[home], client=("10.0.0.5", 1)) as http:
        assert (await http.get("/_proxy/")).status_code == 401


@pytest.mark.parametrize("path", ["/_proxy/api/sessions", "/_proxy/openapi.json", "/metrics", "/healthz", "/readyz"])
async def test_own_pages_never_reach_an_upstream(path):
    async with a_lodge() as lodge:
        answer = await lodge.http.get(path)

    assert answer.status_code == 200
    assert lodge.provider.received == []
