"""Requests arrive in pieces, answers begin with a status."""

import pytest

from proxy.demo.provider.asgi import receive_request, serve_lifespan, start_answer

pytestmark = pytest.mark.anyio

SCOPE = {"method": "POST", "path": "/p", "query_string": b"a=1", "headers": [(b"X-A", b"1"), (b"x-a", b"2")]}


def giving(*messages):
    waiting = list(messages)

    async def receive():
        return waiting.pop(0)

    return receive


async def test_a_body_is_put_together_from_its_pieces():
    receive = giving({"body": b"a", "more_body": True}, {"body": b"b"})
    record = await receive_request(SCOPE, receive)

    assert record.body == b"ab"
    assert (record.path, record.query, record.headers) == ("/p", "a=1", {"x-a": "2"})


async def test_an_answer_notes_its_status():
    sent = []

    async def send(message):
        sent.append(message)

    record = await receive_request(SCOPE, giving({"body": b""}))
    await start_answer(record, send, 418, ((b"x-b", b"3"),), "text/plain")

    assert record.status == sent[0]["status"] == 418
    assert (b"content-type", b"text/plain") in sent[0]["headers"]
    assert (b"x-b", b"3") in sent[0]["headers"]


async def test_start_and_end_are_confirmed():
    sent = []

    async def send(message):
        sent.append(message["type"])

    await serve_lifespan(giving({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}), send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
