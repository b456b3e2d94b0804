import asyncio

import pytest

from proxy.errors import BodyTooLarge
from proxy.server.incoming import ClientGone, Incoming

pytestmark = pytest.mark.anyio
LEFT = {"type": "http.disconnect"}


def a_piece(body, *, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def receiving(*messages, then=None):
    """An ASGI `receive`; after the messages it waits for `then`, an event, and tells that the client left."""
    waiting = list(messages)

    async def receive():
        if waiting:
            return waiting.pop(0)
        await (then or asyncio.Event()).wait()
        return LEFT

    return receive


async def test_whole_body_is_read_however_it_comes():
    assert await Incoming(receiving(a_piece(b"abc")), 10).read() == b"abc"
    assert (
        await Incoming(receiving(a_piece(b"ab", more=True), a_piece(b"", more=True), a_piece(b"c")), 10).read()
        == b"abc"
    )


async def test_pieces_come_as_they_arrive():
    incoming = Incoming(receiving(a_piece(b"ab", more=True), a_piece(b"", more=True), a_piece(b"c")), 10)

    assert [piece async for piece in incoming.pieces()] == [b"ab", b"c"]


async def test_limit_counts_all_pieces():
    assert await Incoming(receiving(a_piece(b"12345", more=True), a_piece(b"67890")), 10).read() == b"1234567890"
    with pytest.raises(BodyTooLarge):
        await Incoming(receiving(a_piece(b"12345", more=True), a_piece(b"678901")), 10).read()
    incoming = Incoming(receiving(a_piece(b"12345678901")), 10)
    with pytest.raises(BodyTooLarge):
        [piece async for piece in incoming.pieces()]

    assert incoming.too_large is not None


@pytest.mark.parametrize("messages", [[LEFT], [a_piece(b"1", more=True), LEFT]])
async def test_leaving_within_the_body_is_an_error(messages):
    incoming = Incoming(receiving(*messages), 10)
    with pytest.raises(ClientGone):
        await incoming.read()

    assert incoming.gone


async def test_leaving_after_the_body_cancels_whatever_is_under_way():
    leave = asyncio.Event()
    incoming = None

    async def call():
        nonlocal incoming
        incoming = Incoming(receiving(a_piece(b"1"), then=leave), 10)
        await incoming.read()
        await asyncio.sleep(10)

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0.01)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)

    assert incoming.gone


@pytest.mark.parametrize("whole", [True, False])
async def test_after_the_answer_nobody_is_cancelled(whole):
    leave = asyncio.Event()
    incoming = Incoming(receiving(a_piece(b"1"), then=leave), 10)
    await incoming.read()
    incoming.answered(whole=whole)
    leave.set()
    await asyncio.sleep(0.01)

    assert not incoming.gone


class Served:
    """A server that tells who leaves, and cancels `task` then."""

    def __init__(self, body=None):
        self.body = body
        self.watchers = []

    def whole(self, when_left):
        if self.body is not None:
            self.watchers.append(when_left)
        return self.body

    def watch(self, when_left):
        self.watchers.append(when_left)


async def test_server_that_says_when_a_client_leaves_is_not_asked():
    served = Served()
    incoming = Incoming(receiving(a_piece(b"1")), 10, served)
    await incoming.read()
    (left,) = served.watchers
    assert not incoming.gone
    left()

    assert incoming.gone


@pytest.mark.parametrize("body", [b"", b"12345"])
async def test_body_that_is_here_is_not_received(body):
    served = Served(body)
    incoming = Incoming(receiving(a_piece(b"other")), 5, served)

    assert await incoming.read() == body
    (left,) = served.watchers
    left()
    assert incoming.gone


async def test_body_that_is_here_has_the_same_limit():
    incoming = Incoming(receiving(), 5, Served(b"123456"))
    with pytest.raises(BodyTooLarge):
        await incoming.read()

    assert incoming.too_large is not None


async def test_server_that_says_when_a_client_leaves_is_told_when_the_call_is_answered():
    served = Served()
    incoming = Incoming(receiving(a_piece(b"1")), 10, served)
    await incoming.read()
    incoming.answered(whole=True)

    assert served.watchers[1:] == [None]


async def test_client_of_a_body_that_streams_is_watched_from_its_beginning_and_not_behind_its_answer():
    served = Served()
    incoming = Incoming(receiving(a_piece(b"1", more=True), a_piece(b"2")), 10, served)
    pieces = incoming.pieces()
    assert len(served.watchers) == 1
    assert await anext(pieces) == b"1"
    incoming.answered(whole=True)
    assert await anext(pieces) == b"2"

    assert served.watchers[1:] == [None]
