import pytest

from proxy.ledger.store import Settlement
from proxy.settings.values import Prune
from tests.builders import a_turn
from tests.server.control.lodge import a_desk, a_lodge, asking

pytestmark = pytest.mark.anyio

MODE = "/_proxy/api/mode"


async def test_the_mode_in_force_and_the_configured_one_are_told():
    async with asking(a_desk()) as http:
        assert (await http.get(MODE)).json() == {"mode": "prune", "configured": "prune", "sessions": {}}
        assert (await http.put(MODE, json={"mode": "off"})).json()["mode"] == "off"
        assert (await http.get(MODE)).json() == {"mode": "off", "configured": "prune", "sessions": {}}
        assert (await http.put(MODE, json={"mode": None})).json()["mode"] == "prune"


async def test_a_conversation_may_have_a_mode_of_its_own():
    desk = a_desk()
    await desk.ledger.settle(Settlement(None, a_turn(session="s1")))
    async with asking(desk) as http:
        told = (await http.put(MODE, json={"mode": "observe", "session": "s1"})).json()
        assert told == {"mode": "prune", "configured": "prune", "sessions": {"s1": "observe"}}
        assert (await http.put(MODE, json={"mode": None, "session": "s1"})).json()["sessions"] == {}


@pytest.mark.parametrize(
    "body", [{}, {"mode": "on"}, {"mode": 1}, [], "off", {"mode": "off", "more": 1}, {"mode": "off", "session": None}]
)
async def test_anything_else_is_refused(body):
    async with asking(a_desk()) as http:
        answer = await http.put(MODE, json=body)

    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_session_that_nobody_knows_cannot_be_switched():
    async with asking(a_desk()) as http:
        assert (await http.put(MODE, json={"mode": "off", "session": "nobody"})).status_code == 404


async def test_the_switch_works_at_the_next_call():
    async with a_lodge(prune=EAGER) as lodge:
        pruned = await lodge.chat(CLEAR_ME)
        await lodge.http.put(MODE, json={"mode": "off"})
        plain = await lodge.chat(CLEAR_ME)
        asked = await lodge.chat(CLEAR_ME, headers={"x-context-mode": "prune"})
        await lodge.http.put(MODE, json={"mode": "off", "session": pruned.headers["x-context-session"]})
        await lodge.http.put(MODE, json={"mode": None})
        own = await lodge.chat(CLEAR_ME)

    assert int(pruned.headers["x-context-removed-tokens"]) > 0
    assert plain.headers["x-context-removed-tokens"] == "0"
    # Whoever ordered off at run time meant it: a call cannot ask for more.
    assert asked.headers["x-context-removed-tokens"] == "0"
    assert asked.headers["x-context-mode"] == "off"
    assert own.headers["x-context-removed-tokens"] == "0"


async def test_observing_tells_what_would_go_under_a_name_of_its_own():
    async with a_lodge(prune=EAGER) as lodge:
        seen = await lodge.chat(CLEAR_ME, headers={"x-context-mode": "observe"})
        sent = lodge.sent()
        session = seen.headers["x-context-session"]
        (turn,) = (await lodge.get(f"/_proxy/api/sessions/{session}"))["turns"]
        context = await lodge.get(f"/_proxy/api/sessions/{session}/context")
        savings = await lodge.get("/_proxy/api/savings")

    assert sent["messages"] == CLEAR_ME
    assert seen.headers["x-context-removed-tokens"] == "0"
    assert (turn["removed_tokens"], context["removed_tokens"], savings["total"]["removed_tokens"]) == (0, 0, 0)
    assert turn["would_remove_tokens"] > 500
    assert context["would_remove_tokens"] == savings["total"]["would_remove_tokens"] == turn["would_remove_tokens"]
    assert savings["total"]["saved"] == 0


EAGER = Prune(policy="always", protect_tokens=0, minimum_tokens=0)
CLEAR_ME = [
    {"role": "user", "content": "hi " * 400},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "x y z " * 400},
    {"role": "assistant", "content": "read"},
    {"role": "user", "content": "go on"},
]
"""Its result goes at once under EAGER."""
