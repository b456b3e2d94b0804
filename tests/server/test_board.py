import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from proxy.errors import StoreError
from proxy.ledger.records import Queued
from proxy.server import board as module
from proxy.server.board import MOST_QUEUED, Board, Full
from proxy.stores.memory import MemoryStore
from tests.server.stores import a_store

pytestmark = pytest.mark.anyio


def a_message(name, text="hello"):
    return Queued(id=name, text=text, at=1.0)


def ids(board, session="s"):
    return [message.id for message in board.queued(session)]


class Broken(MemoryStore):
    async def learned(self, name):
        raise StoreError("down")

    async def learn(self, name, value):
        raise StoreError("down")


# The mode


async def test_as_long_as_nothing_is_ordered_the_configured_mode_is_in_force():
    board = Board(a_store(), "observe")

    assert (board.mode, board.mode_of("s"), board.configured) == ("observe", "observe", "observe")


async def test_a_conversations_own_mode_wins_over_everybodys():
    board = Board(a_store(), "prune")
    await board.set_mode("off")
    await board.set_mode("prune", "s")

    assert (board.mode, board.mode_of("s"), board.mode_of("other")) == ("off", "prune", "off")
    await board.set_mode(None, "s")
    assert board.mode_of("s") == "off"
    await board.set_mode(None)
    assert board.mode == "prune"


@pytest.mark.parametrize(
    ("ordered", "wish", "gets"),
    [
        (None, "prune", "prune"),
        (None, "off", "off"),
        ("off", "prune", "off"),
        ("observe", "prune", "observe"),
        ("observe", "off", "off"),
        ("prune", "observe", "observe"),
    ],
)
async def test_a_call_gets_no_more_than_was_ordered(ordered, wish, gets):
    board = Board(a_store(), "off")
    await board.set_mode(ordered)

    assert board.allowed(wish, "s") == gets


# The queue


async def test_c57_messages_wait_in_the_order_in_which_they_came():
    board = Board(a_store(), "prune")

    assert [await board.queue("s", a_message(name)) for name in "ab"] == [1, 2]
    assert ids(board) == ["a", "b"]
    assert board.queued("other") == ()


async def test_a_queue_takes_no_more_than_so_many():
    board = Board(a_store(), "prune")
    for number in range(MOST_QUEUED):
        await board.queue("s", a_message(str(number)))

    with pytest.raises(Full):
        await board.queue("s", a_message("more"))
    assert len(ids(board)) == MOST_QUEUED
    assert await board.queue("other", a_message("x")) == 1


async def test_messages_are_taken_out_once():
    board = Board(a_store(), "prune")
    for name in "abc":
        await board.queue("s", a_message(name))

    assert await board.drop("s", ["a", "c", "z"]) == 2
    assert await board.drop("s", ["a"]) == 0
    assert ids(board) == ["b"]


async def test_what_comes_back_stands_in_front_and_only_once():
    board = Board(a_store(), "prune")
    await board.queue("s", a_message("b"))

    await board.give_back("s", (a_message("a"), a_message("b")))
    assert ids(board) == ["a", "b"]


# The store


async def test_orders_survive_a_restart_and_the_log_says_so():
    store = a_store()
    first = Board(store, "prune")
    await first.set_mode("off")
    await first.queue("s", a_message("a"))

    second = Board(store, "prune")
    with capture_logs() as logs:
        await second.start()
    await second.aclose()

    assert (second.mode, ids(second)) == ("off", ["a"])
    assert logs == [{"event": "mode_overridden", "mode": "off", "configured": "prune", "log_level": "warning"}]


async def test_another_process_knows_soon(monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    store = a_store()
    one, other = Board(store, "prune"), Board(store, "prune")
    await other.start()
    await one.set_mode("off")
    async with asyncio.timeout(2):
        while other.mode != "off":
            await asyncio.sleep(0.01)
    await other.aclose()

    assert other.mode_of("s") == "off"


async def test_changes_of_two_processes_add_up():
    store = a_store()
    one, other = Board(store, "prune"), Board(store, "prune")
    await one.queue("s", a_message("a"))
    await other.queue("s", a_message("b"))
    await one.set_mode("observe", "s")

    assert ids(one) == ["a", "b"]
    assert one.mode_of("s") == "observe"


async def test_a_reading_under_way_does_not_undo_a_change():
    class Slow(MemoryStore):
        async def learned(self, name):
            value = await super().learned(name)
            await asyncio.sleep(0.01)
            return value

    board = Board(Slow(ttl_s=3600.0, clock=lambda: 1.0), "prune")
    reading = asyncio.ensure_future(board.read())
    await asyncio.sleep(0)
    await board.set_mode("off")
    await reading

    assert board.mode == "off"


async def test_without_a_store_orders_hold_in_this_process():
    board = Board(Broken(ttl_s=3600.0, clock=lambda: 1.0), "prune")
    await board.start()
    await board.set_mode("off")
    await board.queue("s", a_message("a"))
    await board.aclose()

    assert (board.mode, ids(board)) == ("off", ["a"])


@pytest.mark.parametrize(
    "stored", [b"", b"\xc1", msgspec.msgpack.encode({"mode": "loud"}), msgspec.msgpack.encode([1])]
)
async def test_orders_of_another_version_are_forgotten(stored):
    store = a_store()
    await store.learn(module._NAME, stored)
    board = Board(store, "prune")
    await board.read()

    assert board.mode == "prune"


async def test_orders_are_bounded():
    board = Board(a_store(), "prune")
    for number in range(module._MOST_SESSIONS + 5):
        await board.set_mode("off", f"s{number}")

    assert len(board.orders.modes) == module._MOST_SESSIONS
    assert board.mode_of(f"s{module._MOST_SESSIONS + 4}") == "off"
    assert board.mode_of("s0") == "prune"
