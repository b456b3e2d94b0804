import pytest

from proxy.ledger.originals import an_original
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores.sealed import PLAIN
from proxy.stores.sqlite_file import connect
from proxy.stores.sqlite_reports import find_originals, find_turns, sum_sessions
from tests.stores.conftest import TTL_S, a_turn, key
from tests.stores.files import a_store

pytestmark = pytest.mark.anyio
NOW = 1_800_000_000.0


async def test_what_is_read_is_what_was_alive_at_that_time(path):
    original = an_original(key("o"), "what stood there")
    store = a_store(path)
    await store.settle(Settlement(None, a_turn(1), [original]), Settlement(None, a_turn(2)))
    await store.close()
    connection = connect(path, 5.0)
    try:
        for now, alive in ((NOW, True), (NOW + 2 * TTL_S, False)):
            turns = find_turns(connection, TurnQuery(session="s-1"), now)
            assert [turn.turn for turn in turns] == ([2, 1] if alive else [])
            assert [line.turns for line in sum_sessions(connection, 10, now)] == ([2] if alive else [])
            found = find_originals(connection, "s-1", [key("none"), original.id], now, PLAIN)
            assert found == [None, original if alive else None]
    finally:
        connection.close()


async def test_rows_that_cannot_be_read_are_left_out(path):
    store = a_store(path)
    await store.settle(Settlement(None, a_turn(1)), Settlement(None, a_turn(2)))
    await store.close()
    connection = connect(path, 5.0)
    try:
        connection.execute("UPDATE turns SET packed = x'00' WHERE turn = 1")
        assert [turn.turn for turn in find_turns(connection, TurnQuery(), NOW)] == [2]
        assert find_turns(connection, TurnQuery(limit=-1), NOW) == []
    finally:
        connection.close()
