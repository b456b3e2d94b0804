import pytest

from proxy.conversation.edit import Plan
from proxy.ledger.records import Queued
from proxy.ledger.store import Settlement
from proxy.reports.edits import NOT_ASKED, NOT_KEPT
from proxy.settings.values import Prune, Store
from proxy.tokens.usage import Usage
from tests.builders import a_clear, a_received, a_turn, an_anchor, rounds, said, user, words
from tests.server.control.lodge import a_desk, a_lodge, asking

pytestmark = pytest.mark.anyio

API = "/_proxy/api/sessions"


async def a_desk_with(*turns):
    desk = a_desk(clock=lambda: 1000.0)
    for turn in turns:
        await desk.ledger.settle(Settlement(None, turn))
    return desk


async def test_sessions_come_newest_first_and_in_pages():
    desk = await a_desk_with(*(a_turn(session=f"s{n}", at=100.0 + n) for n in range(5)))
    async with asking(desk) as http:
        first = (await http.get(f"{API}?limit=2")).json()
        second = (await http.get(f"{API}?limit=2&offset=2")).json()
        last = (await http.get(f"{API}?limit=2&offset=4")).json()

    assert [[row["session"] for row in page["sessions"]] for page in (first, second, last)] == [
        ["s4", "s3"],
        ["s2", "s1"],
        ["s0"],
    ]
    assert [page["next"] for page in (first, second, last)] == [2, 4, None]


@pytest.mark.parametrize(
    ("find", "found"),
    [
        ("s1", ["s1"]),
        ("UMBAU", ["s2"]),
        ("gpt", ["s3", "s1"]),
        ("groq", ["s3"]),
        (" s1 ", ["s1"]),
        ("", ["s3", "s2", "s1"]),
        ("nowhere", []),
        # Not across the fields.
        ("s1gpt", []),
    ],
)
async def test_sessions_are_found_by_a_text_in_their_id_name_model_or_upstream(find, found):
    desk = await a_desk_with(
        a_turn(session="s1", at=101.0, model="gpt-4o"),
        a_turn(session="s2", at=102.0, model="claude", label="Größerer Umbau"),
        a_turn(session="s3", at=103.0, model="gpt-oss", upstream="groq"),
    )
    async with asking(desk) as http:
        page = (await http.get(API, params={"find": find})).json()
        second = (await http.get(API, params={"find": find, "limit": 1, "offset": 1})).json()

    assert [row["session"] for row in page["sessions"]] == found
    assert [row["session"] for row in second["sessions"]] == found[1:2]
    assert second["next"] == (2 if len(found) > 2 else None)


async def test_what_is_looked_for_is_bounded():
    async with asking(a_desk()) as http:
        answer = await http.get(API, params={"find": "x" * 201})

    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "find: expected at most 200 characters")


@pytest.mark.parametrize("query", ["limit=x", "limit=0", "limit=-1", "limit=501", "offset=nan", "limit=1e9"])
async def test_pages_are_bounded(query):
    async with asking(a_desk()) as http:
        answer = await http.get(f"{API}?{query}")

    assert answer.status_code == 400
    assert "expected a number" in answer.json()["error"]["message"]


async def test_one_session_is_paged_by_time():
    desk = await a_desk_with(*(a_turn(turn=n, at=100.0 + n) for n in range(1, 6)))
    await desk.board.queue("s1", Queued(id="q", text="x", at=0.0))
    async with asking(desk) as http:
        newest = (await http.get(f"{API}/s1?limit=3")).json()
        older = (await http.get(f"{API}/s1?limit=3&before={newest['next']}")).json()

    assert [row["turn"] for row in newest["turns"]] == [5, 4, 3]
    assert [row["turn"] for row in older["turns"]] == [2, 1]
    assert (newest["queued"], older["next"]) == (1, None)


async def test_r9_the_context_display_has_rows_and_basis():
    turn = a_turn(
        estimated=52_100,
        window=200_000,
        reserve=16_000,
        system_tokens=4_000,
        tools_tokens=8_000,
        last_input=50_000,
        last_output=2_000,
        new_tokens=100,
        usage=Usage(input_tokens=51_790),
    )
    async with asking(await a_desk_with(turn)) as http:
        shown = (await http.get(f"{API}/s1/context")).json()

    assert {row["name"]: row["tokens"] for row in shown["rows"]} == {
        "system": 4_000,
        "tools": 8_000,
        "messages": 40_100,
        "reasoning": 0,
        "reserve": 16_000,
        "free": 131_900,
    }
    assert shown["basis"] == {
        "kind": "anchored",
        "last_input": 50_000,
        "last_output": 2_000,
        "new": 100,
        "corrections": 0,
    }
    assert shown["last_estimate"]["error"] == 310


async def test_edits_are_those_of_the_newest_calls_plan():
    received = a_received(rounds("x" * 400, "y"))
    plan = Plan((a_clear(received, 2),))
    desk = a_desk(clock=lambda: 1000.0)
    await desk.ledger.decide(an_anchor(plan_id=plan.plan_id()), plan)
    await desk.ledger.settle(Settlement(None, a_turn(turn=1, plan_id=plan.plan_id())))
    await desk.ledger.settle(Settlement(None, a_turn(turn=2, at=1001.0, purpose="utility")))
    async with asking(desk) as http:
        shown = (await http.get(f"{API}/s1/edits")).json()

    (edit,) = shown["edits"]
    assert (shown["turn"], shown["known"], edit["kind"], edit["after"]) == (1, True, "clear", "[gone]")
    assert (edit["tokens_before"], edit["tokens_after"], edit["saved_tokens"]) == (1000, 2, 998)
    assert (edit["number"], edit["before"], edit["before_note"]) == (1, None, NOT_ASKED)


async def test_r23_what_an_edit_replaced_is_shown_beside_what_stands_there_now():
    async with a_lodge(prune=Prune(policy="always", protect_tokens=0, minimum_tokens=0)) as lodge:
        await lodge.chat(HISTORY[:1])
        session = (await lodge.chat(HISTORY)).headers["x-context-session"]
        one = await lodge.get(f"{API}/{session}/edits/1")
        listed = await lodge.get(f"{API}/{session}/edits?originals=1")
        beyond = await lodge.http.get(f"{API}/{session}/edits/2")
        nonsense = await lodge.http.get(f"{API}/{session}/edits/x")

    assert (one["before"], one["before_cut"], one["before_note"]) == (LONG, 0, "")
    assert (one["kind"], one["turn"], one["reason"]) == ("clear", 2, listed["edits"][0]["reason"])
    assert one["after"] == lodge.sent()["messages"][2]["content"] != LONG
    assert listed["edits"] == [one]
    assert (beyond.status_code, nonsense.status_code) == (404, 404)


async def test_with_originals_off_only_the_client_has_them():
    store = Store(url="memory://", originals=False)
    async with a_lodge(store=store, prune=Prune(policy="always", protect_tokens=0, minimum_tokens=0)) as lodge:
        session = (await lodge.chat(HISTORY)).headers["x-context-session"]
        one = await lodge.get(f"{API}/{session}/edits/1")

    assert (one["kind"], one["before"], one["before_note"]) == ("clear", None, NOT_KEPT)


LONG = words("a secret", 900)
HISTORY = [*rounds(LONG), said("read it"), user("next")]


async def test_a_lost_plan_is_said_to_be_lost():
    async with asking(await a_desk_with(a_turn(plan_id=b"x" * 16))) as http:
        assert (await http.get(f"{API}/s1/edits")).json()["known"] is False


@pytest.mark.parametrize("page", ["", "/context", "/edits", "/edits/1", "/queue"])
async def test_a_session_that_nobody_knows_is_not_found(page):
    async with asking(a_desk()) as http:
        answer = await http.get(f"{API}/nobody{page}")

    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert "nobody" not in answer.text


async def test_a_session_of_our_own_calls_has_no_context():
    async with asking(await a_desk_with(a_turn(purpose="summary"))) as http:
        assert (await http.get(f"{API}/s1/context")).status_code == 404
