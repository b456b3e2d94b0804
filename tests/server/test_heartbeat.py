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

    async def has(self, count):
        """Wait until so much has come, however long a busy machine takes."""
        async with asyncio.timeout(60):
            while len(self.received) < count:
                await asyncio.sleep(0.01)


def a_chunk(body):
    return {"type": "http.response.body", "body": body, "more_body": True}


async def test_silent_stream_shows_signs_of_life():
    client = Client()
    beat = Heartbeat(client.send, 0.05)
    await beat.forward(a_chunk(EVENT))
    await client.has(4)
    await beat.stop()
    received = list(client.received)
    await asyncio.sleep(0.2)

    assert received[0] == EVENT
    assert set(received[1:]) == {b": \n"}
    assert client.received == received


async def test_stream_that_has_not_begun_is_at_a_boundary():
    client = Client()
    beat = Heartbeat(client.send, 0.05)
    await client.has(1)
    await beat.stop()

    assert set(client.received) == {b": \n"}


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
    await client.has(len(end) + 2)
    await beat.stop()

    assert client.received[-1] == b": \n"


async def test_busy_stream_needs_none():
    client = Client()
    beat = Heartbeat(client.send, 1.5)
    for _ in range(20):
        await beat.forward(a_chunk(EVENT))
        await asyncio.sleep(0.1)
    await beat.stop()

    assert client.received == [EVENT] * 20


async def test_client_that_does_not_read_gets_one_beat_at_most():
    waiting = []

    async def never(message):
        waiting.append(message)
        await asyncio.Event().wait()

    beat = Heartbeat(never, 0.03)
    async with asyncio.timeout(60):
        while not waiting:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.15)
    await asyncio.wait_for(beat.stop(), 60)

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
