import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.ledger.store import Settlement
from proxy.settings.values import Compact, ModelSettings, Prune
from proxy.tokens.learn import encode, learned_name
from proxy.tokens.usage import Usage
from tests.builders import a_turn, rounds, said, user, words
from tests.server.control.lodge import a_desk, a_lodge, asking
from tests.tokens.test_treatment import taught

pytestmark = pytest.mark.anyio

HOUR = 3600.0


async def a_desk_at(now, *turns):
    desk = a_desk(clock=lambda: now)
    for turn in turns:
        await desk.ledger.settle(Settlement(None, turn))
    return desk


async def test_accuracy_is_that_of_the_asked_hours():
    old = a_turn(turn=1, at=10.0, estimated=200, usage=Usage(input_tokens=100))
    new = a_turn(turn=2, at=10 * HOUR, estimated=101, usage=Usage(input_tokens=100))
    async with asking(await a_desk_at(10 * HOUR + 5, old, new)) as http:
        everything = (await http.get("/_proxy/api/accuracy")).json()
        recent = (await http.get("/_proxy/api/accuracy?hours=1")).json()

    assert (everything["rows"][0]["total"]["max"], everything["since"]) == (100.0, 0.0)
    assert (recent["rows"][0]["total"]["max"], recent["since"]) == (1.0, 9 * HOUR + 5)
    assert len(recent["rows"][0]["total"]["histogram"]) == len(recent["bounds"]) + 1


async def test_accuracy_tells_what_became_of_earlier_reasoning():
    desk = await a_desk_at(2000.0, a_turn(), a_turn(turn=2, model="other"))
    await desk.ledger.learn(learned_name("openai", "m", "o200k_base"), encode(taught(-1)))
    async with asking(desk) as http:
        rows = (await http.get("/_proxy/api/accuracy")).json()["rows"]
        schemas = (await http.get("/_proxy/openapi.json")).json()["components"]["schemas"]

    assert {row["model"]: row["reasoning"] for row in rows} == {"m": "dropped", "other": "not known yet"}
    described = schemas["AccuracyRow"]["properties"]["reasoning"]["anyOf"]
    assert {"enum": ["as sent", "dropped", "kept", "not known yet"]} in described


async def test_savings_are_net_of_summary_calls():
    call = a_turn(cost=1.0, cost_unpruned=3.0)
    made = a_turn(session="s1", turn=0, at=1001.0, purpose="summary", cost=0.5)
    async with asking(await a_desk_at(2000.0, call, made)) as http:
        shown = (await http.get("/_proxy/api/savings?hours=24")).json()

    assert (shown["total"]["saved"], shown["total"]["summaries"], shown["complete"]) == (1.5, 0.5, True)
    assert [(line["key"], line["bill"]["saved"]) for line in shown["by_session"]] == [("s1", 1.5)]


@pytest.mark.parametrize("path", ["/_proxy/api/accuracy", "/_proxy/api/savings"])
async def test_more_hours_than_there_were_are_all_of_them(path):
    async with asking(a_desk()) as http:
        assert (await http.get(f"{path}?hours=1e308")).json()["since"] == 0.0


@pytest.mark.parametrize("path", ["/_proxy/api/accuracy", "/_proxy/api/savings"])
async def test_hours_are_a_number(path):
    async with asking(a_desk()) as http:
        assert (await http.get(f"{path}?hours=soon")).status_code == 400


async def test_metrics_are_those_of_the_calls_that_came_through():
    async with a_lodge() as lodge:
        await lodge.chat([{"role": "user", "content": "hello"}])
        answer = await lodge.http.get("/metrics")

    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.labels.get("type", "input") == "input"
    }
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert found["pruning_proxy_calls_total"] == 1
    assert found["pruning_proxy_tokens_total"] > 0
    assert found["pruning_proxy_upstream_seconds_count"] == 1
    assert (found["pruning_proxy_open_calls"], found["pruning_proxy_store_healthy"]) == (0, 1)


async def test_r42_the_reported_usage_stays_true():
    """What pruning saved is told in headers and reports, never by changing what the provider said."""
    async with a_lodge(prune=Prune(policy="always", protect_tokens=0, minimum_tokens=0)) as lodge:
        answer = await lodge.chat([*rounds(words("long", 900)), said("read it"), user("next")])
        session = answer.headers["x-context-session"]
        context = await lodge.get(f"/_proxy/api/sessions/{session}/context")

    reported, removed = answer.json()["usage"]["prompt_tokens"], int(answer.headers["x-context-removed-tokens"])
    assert reported == lodge.provider.received[0].bill.input == context["reported"]
    assert removed > reported > 0
    assert context["raw_total"] - context["total"] == removed


async def test_a_summary_call_is_charged_to_the_conversation_that_it_was_made_for():
    history = [{"role": "user", "content": "begin"}]
    for number in range(12):
        history.append({"role": "assistant", "content": f"said {number} " * 100})
        history.append({"role": "user", "content": f"asked {number} " * 100})
    sections = {"models": {"*": ModelSettings(window=6_000, max_output=500)}, "compact": Compact()}
    async with a_lodge(**sections) as lodge:
        answer = await lodge.chat(history, fields={"max_tokens": 500})
        savings = await lodge.get("/_proxy/api/savings")
        detail = await lodge.get(f"/_proxy/api/sessions/{answer.headers['x-context-session']}")
        board = await lodge.get("/_proxy/api/dashboard")
        metrics = (await lodge.http.get("/metrics")).text

    assert answer.headers["x-context-compacted"] == "1"
    (line,) = savings["by_session"]
    # Every page tells the same sums, and the call itself is a row of the conversation.
    assert detail["bill"] == line["bill"] == savings["total"]
    assert sum(step["bill"]["summaries"] for step in board["steps"]) == pytest.approx(line["bill"]["summaries"])
    assert board["steps"][-1]["saved_so_far"] == pytest.approx(line["bill"]["saved"])
    assert sorted(turn["purpose"] for turn in detail["turns"]) == ["main", "summary"]
    assert (line["key"], line["bill"]["summary_calls"]) == (answer.headers["x-context-session"], 1)
    assert savings["total"]["summaries"] > 0
    assert 'purpose="summary"' in metrics
