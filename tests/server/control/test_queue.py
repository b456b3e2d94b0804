import pytest

from proxy.ledger.store import Settlement
from proxy.server.board import MOST_CHARS, MOST_QUEUED
from tests.builders import a_turn
from tests.server.control.lodge import a_desk, asking

pytestmark = pytest.mark.anyio

QUEUE = "/_proxy/api/sessions/s1/queue"


async def known_desk():
    desk = a_desk(clock=lambda: 1000.0)
    await desk.ledger.settle(Settlement(None, a_turn(session="s1")))
    return desk


async def test_c57_queued_messages_have_their_positions():
    async with asking(await known_desk()) as http:
        first = await http.post(QUEUE, json={"text": "also the tests"})
        second = await http.post(QUEUE, json={"text": "and the docs"})
        listed = (await http.get(QUEUE)).json()

    assert (first.status_code, first.json()["queued"], first.json()["position"]) == (201, True, 1)
    assert second.json()["position"] == 2
    assert [(one["position"], one["text"], one["at"]) for one in listed["queue"]] == [
        (1, "also the tests", 1000.0),
        (2, "and the docs", 1000.0),
    ]


async def test_messages_can_be_cancelled_one_by_one_or_all():
    async with asking(await known_desk()) as http:
        ids = [(await http.post(QUEUE, json={"text": str(n)})).json()["id"] for n in range(3)]
        assert (await http.delete(f"{QUEUE}/{ids[1]}")).json() == {"cancelled": 1}
        assert [one["text"] for one in (await http.get(QUEUE)).json()["queue"]] == ["0", "2"]
        assert (await http.delete(f"{QUEUE}/{ids[1]}")).json() == {"cancelled": 0}
        assert (await http.delete(QUEUE)).json() == {"cancelled": 2}
        assert (await http.get(QUEUE)).json()["queue"] == []


async def test_a_session_that_nobody_knows_has_no_queue():
    async with asking(await known_desk()) as http:
        path = "/_proxy/api/sessions/nobody/queue"
        assert (await http.post(path, json={"text": "hi"})).status_code == 404
        assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": "  \n"}, {"text": 5}, {"text": "x", "role": "system"}, []])
async def test_only_text_can_be_queued(body):
    async with asking(await known_desk()) as http:
        assert (await http.post(QUEUE, json=body)).status_code == 400


async def test_a_queue_is_bounded():
    async with asking(await known_desk()) as http:
        assert (await http.post(QUEUE, json={"text": "x" * (MOST_CHARS + 1)})).status_code == 400
        for number in range(MOST_QUEUED):
            assert (await http.post(QUEUE, json={"text": str(number)})).status_code == 201
        full = await http.post(QUEUE, json={"text": "one more"})

    assert (full.status_code, full.json()["error"]["type"]) == (409, "queue_full")


async def test_a_form_of_a_foreign_page_is_no_message():
    """Forms are sent across origins without asking; JSON is not."""
    async with asking(await known_desk()) as http:
        answer = await http.post(QUEUE, content=b'{"text": "x"}', headers={"content-type": "text/plain"})

    assert answer.status_code == 415


async def test_watchers_hear_of_the_queue():
    desk = await known_desk()
    async with asking(desk) as http:
        with desk.watch.feed.watching() as watcher:
            message = (await http.post(QUEUE, json={"text": "hush"})).json()
            await http.delete(f"{QUEUE}/{message['id']}")

    assert [(event.kind, dict(event.fields)) for event in watcher.take()] == [
        ("queue", {"session": "s1", "queued": 1}),
        ("queue", {"session": "s1", "queued": 0}),
    ]
