import asyncio

import pytest

from proxy.server.heartbeat import Heartbeat

pytestmark = pytest.mark.anyio
EVENT = b"data: 1\n\n"


class Client:
    def __init__(self):
        self.received = []

    async def send(self, message):
        self.received.append(message["body"])


def a_chunk(body):
    return {"type": "http.response.body", "body": body, "more_body": True}


async def test_silent_stream_shows_signs_of_life():
    client = Client()
    beat = Heartbeat(client.send, 0.05)
    await beat.forward(a_chunk(EVENT))
    await asyncio.sleep(0.18)
    await beat.stop()
    await asyncio.sleep(0.1)

    assert client.received == [EVENT, b": \n", b": \n", b": \n"]


async def test_stream_that_has_not_begun_is_at_a_boundary():
    client = Client()
    beat = Heartbeat(client.send, 0.05)
    await asyncio.sleep(0.08)
    await beat.stop()

    assert client.received == [b": \n"]


@pytest.mark.parametrize("pieces", [[b"data: 1"], [b"data: 1\n"], [b"data: 1\r\n"], [EVENT, b"d"], [b"\n\nid: 2\n"]])
async def test_nothing_is_put_inside_an_event(pieces):
    client = Client()
    beat = Heartbeat(client.send, 0.03)
    for piece in pieces:
        await beat.forward(a_chunk(piece))
    await asyncio.sleep(0.1)
    await beat.stop()

    assert client.received == pieces


@pytest.mark.parametrize("end", [[b"\n", b"\n"], [b"\r\n", b"\r", b"\n"], [b"\n\n"], [b"\r\n\r\n"]])
async def test_boundary_is_seen_however_it_is_cut(end):
    client = Client()
    beat = Heartbeat(client.send, 0.04)
    for piece in [b"data: 1", *end]:
        await beat.forward(a_chunk(piece))
    await asyncio.sleep(0.06)
    await beat.stop()

    assert client.received[-1] == b": \n"


async def test_busy_stream_needs_none():
    client = Client()
    beat = Heartbeat(client.send, 0.1)
    for _ in range(8):
        await beat.forward(a_chunk(EVENT))
        await asyncio.sleep(0.03)
    await beat.stop()

    assert client.received == [EVENT] * 8


async def test_client_that_does_not_read_gets_one_beat_at_most():
    waiting = []

    async def never(message):
        waiting.append(message)
        await asyncio.Event().wait()

    beat = Heartbeat(never, 0.03)
    await asyncio.sleep(0.15)
    await asyncio.wait_for(beat.stop(), 1)

    assert len(waiting) == 1


async def test_chunk_on_its_way_holds_beats_back():
    gate = asyncio.Event()
    received = []

    async def slow(message):
        await gate.wait()
        received.append(message["body"])

    beat = Heartbeat(slow, 0.03)
    forwarding = asyncio.ensure_future(beat.forward(a_chunk(b"data: ")))
    await asyncio.sleep(0.1)
    gate.set()
    await forwarding
    await beat.stop()

    assert received == [b"data: "]
