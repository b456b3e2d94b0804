from proxy.ledger.originals import MOST_SESSION_BYTES, an_original
from proxy.stores.attic import Attic
from tests.stores.conftest import TTL_S, Clock, key


def an_attic(clock=None, room_bytes=64 * 1024 * 1024):
    return Attic(room_bytes=room_bytes, ttl_s=TTL_S, clock=clock or Clock())


def one(name, size=10):
    return an_original(key(name), "x" * size)


def test_each_original_has_its_own_end():
    clock = Clock()
    attic = an_attic(clock)
    attic.add("s", [one("old")])
    clock.now += TTL_S * 0.7
    attic.add("s", [one("new")])
    clock.now += TTL_S * 0.7

    assert attic.get("s", [key("old"), key("new")]) == [None, one("new")]


def test_a_conversation_holds_no_more_than_its_room():
    attic = an_attic()
    for number in range(200):
        attic.add("s", [one(f"n{number}", 30_000)])

    found = attic.get("s", [key(f"n{number}") for number in range(200)])
    assert attic.held_bytes <= MOST_SESSION_BYTES
    assert found[-1] is not None
    assert found[0] is None


def test_an_original_that_is_kept_again_takes_its_room_once():
    attic, once = an_attic(), an_attic()
    attic.add("s", [one("a", 500), one("b"), one("a", 10)])
    attic.add("s", [one("a", 70)])
    once.add("s", [one("b"), one("a", 70)])

    assert attic.get("s", [key("a"), key("b")]) == [one("a", 70), one("b")]
    assert attic.held_bytes == once.held_bytes


def test_where_all_is_too_much_whole_conversations_go():
    attic = an_attic(room_bytes=80_000)
    for name in ("a", "b", "c"):
        attic.add(name, [one("n", 40_000)])

    assert attic.held_bytes <= 80_000
    assert attic.get("a", [key("n")]) == [None]
    assert attic.get("c", [key("n")]) != [None]
