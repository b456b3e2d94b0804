"""Rows in memory."""

from proxy.ledger.store import TurnQuery
from proxy.stores.turnlog import TurnLog, size_of, summarise
from tests.stores.conftest import Clock, a_turn, a_usage


def a_log(clock=None, **changes):
    return TurnLog(**{"most": 100, "room_bytes": 10**6, "ttl_s": 10.0, "clock": clock or Clock(), **changes})


def test_the_oldest_calls_go_first_whatever_order_they_came_in():
    log = a_log(most=16)
    for number in (5, 3, 9, 1, *range(10, 23)):
        log.add(a_turn(number))

    assert [turn.turn for turn in log.find(TurnQuery())] == [*range(22, 9, -1), 9, 5]


def test_the_bound_in_bytes_holds():
    log = a_log(room_bytes=20 * size_of(a_turn()))
    for number in range(100):
        log.add(a_turn(number))

        assert log.held_bytes <= 20 * size_of(a_turn())
    assert log.held_bytes == len(log) * size_of(a_turn())


def test_a_row_that_comes_again_replaces_itself_also_in_its_sessions_sum():
    log = a_log()
    log.add(a_turn(1, usage=a_usage(input_tokens=1)))
    assert log.sessions(1)[0].input_tokens == 1
    log.add(a_turn(1, usage=a_usage(input_tokens=50)))

    assert log.sessions(1)[0].input_tokens == 50
    assert len(log) == 1


def test_dead_rows_are_swept_and_their_sessions_with_them():
    clock = Clock()
    log = a_log(clock)
    log.add(a_turn(1, session="old"))
    clock.now += 6
    log.add(a_turn(2, session="new"))
    assert len(log.sessions(9)) == 2

    clock.now += 6
    assert [line.session for line in log.sessions(9)] == ["new"]
    assert len(log) == 1


def test_nothing_sums_to_nothing():
    assert summarise("s", []) is None


def test_a_row_may_bring_its_own_end_of_life():
    clock = Clock()
    log = a_log(clock)
    log.add(a_turn(1), expires=clock() + 3.0)
    log.add(a_turn(2))
    clock.now += 5.0

    assert [turn.turn for turn in log.find(TurnQuery())] == [2]
