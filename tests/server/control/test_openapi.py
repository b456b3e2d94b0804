import pytest
from starlette.routing import Route

from proxy.conversation.edit import Plan
from proxy.ledger.store import Settlement
from proxy.server.control import routes
from proxy.server.control.openapi import PAGES, document
from tests.builders import a_clear, a_received, a_turn, an_anchor, rounds
from tests.server.control.lodge import a_desk, asking

pytestmark = pytest.mark.anyio


def test_every_page_is_described_and_nothing_else():
    served = {
        (method, route.path_format)
        for route in routes(a_desk())
        if isinstance(route, Route)
        for method in route.methods - {"HEAD"}
    }

    assert {(page.method, page.path) for page in PAGES} == served


async def test_the_description_is_served():
    async with asking(a_desk()) as http:
        assert (await http.get("/_proxy/openapi.json")).json() == document()


def test_every_reference_leads_somewhere():
    described = document()

    def references(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for item in value.values():
                yield from references(item)
        elif isinstance(value, list):
            for item in value:
                yield from references(item)

    found = set(references(described))
    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert found == known
    assert "#/components/schemas/Overview" in known


async def test_answers_have_the_fields_that_are_described():
    desk = a_desk(clock=lambda: 1000.0)
    plan = Plan((a_clear(a_received(rounds("x", "y")), 2),))
    await desk.ledger.decide(an_anchor(plan_id=plan.plan_id()), plan)
    await desk.ledger.settle(Settlement(None, a_turn(plan_id=plan.plan_id())))
    schemas = document()["components"]["schemas"]
    async with asking(desk) as http:
        for page in PAGES:
            if page.method != "GET" or not hasattr(page.gives, "__struct_fields__"):
                continue
            answer = await http.get(page.path.replace("{session}", "s1").replace("{number}", "1"))
            assert set(answer.json()) == set(schemas[page.gives.__name__]["properties"]), page.path


async def test_errors_and_bounds_are_as_described():
    described = document()
    paths = described["paths"]
    assert all("default" in operation["responses"] for page in paths.values() for operation in page.values())
    async with asking(a_desk()) as http:
        for parameter in paths["/_proxy/api/sessions"]["get"]["parameters"]:
            name, schema = parameter["name"], parameter["schema"]
            if schema["type"] == "string":
                most = schema["maxLength"]
                tried = [("x" * most, 200), ("x" * (most + 1), 400)]
            else:
                tried = [(schema["maximum"], 200), (schema["maximum"] + 1, 400), (schema["minimum"] - 1, 400)]
            for value, status in tried:
                answer = await http.get("/_proxy/api/sessions", params={name: value})
                assert answer.status_code == status, (name, value)
        assert set(answer.json()) == set(described["components"]["schemas"]["Refused"]["properties"])
        assert set(answer.json()["error"]) == set(described["components"]["schemas"]["Complaint"]["properties"])


async def test_a_method_that_is_not_served_is_told_which_are():
    async with asking(a_desk()) as http:
        refused = await http.delete("/_proxy/api/mode")
    assert refused.status_code == 405
    assert refused.headers["allow"] == "GET, HEAD, PUT"
