"""The bounded place in memory."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.stores.shelf import Shelf
from tests.stores.conftest import Clock


def a_shelf(clock=None, **changes):
    return Shelf(**{"most": 3, "room_bytes": 100, "ttl_s": 10.0, "clock": clock or Clock(), **changes})


def test_least_recently_used_goes_first_when_there_are_too_many():
    shelf = a_shelf()
    for name in "abc":
        shelf.put(name, name, 1)
    shelf.get("a")
    shelf.put("d", "d", 1)

    assert [name for name in "abcd" if shelf.get(name)] == ["a", "c", "d"]


def test_as_many_go_as_a_large_value_needs():
    shelf = a_shelf()
    for name in "abc":
        shelf.put(name, name, 30)
    shelf.put("large", "large", 65)

    assert [name for name in ("a", "b", "c", "large") if shelf.get(name)] == ["c", "large"]


def test_a_value_larger_than_all_room_is_refused_and_replaces_its_older_self():
    shelf = a_shelf()
    shelf.put("a", "old", 1)

    assert shelf.put("a", "new", 101) is False
    assert shelf.get("a") is None
    assert shelf.held_bytes == 0


def test_a_value_dies_at_its_end_and_a_renewed_one_lives_on():
    clock = Clock()
    shelf = a_shelf(clock)
    shelf.put("dies", 1, 1)
    shelf.put("renewed", 1, 1)
    shelf.put("short", 1, 1, expires=clock.now + 2)
    clock.now += 6
    assert shelf.get("short") is None
    assert shelf.renew("renewed")
    assert not shelf.renew("unknown")

    clock.now += 6
    assert shelf.get("dies") is None
    assert shelf.get("renewed") == 1


def test_several_values_are_asked_for_as_of_one_moment_and_count_as_used():
    clock = Clock()
    shelf = a_shelf(clock)
    shelf.put("dies", 1, 1, expires=clock.now + 2)
    shelf.put("a", "a", 1)
    shelf.put("b", "b", 1)
    clock.now += 3
    assert shelf.get_all(["a", "unknown", "dies"]) == ["a", None, None]
    assert (len(shelf), shelf.held_bytes) == (2, 2)

    shelf.put("c", "c", 1)
    shelf.put("d", "d", 1)
    assert shelf.get_all("abcd") == ["a", None, "c", "d"]


def test_a_value_from_a_clock_that_was_far_ahead_is_not_kept_for_that_long():
    clock = Clock()
    shelf = a_shelf(clock)
    clock.now += 1e6
    shelf.put("from the future", 1, 1)
    clock.now -= 1e6

    assert shelf.get("from the future") is None


def test_sweeping_removes_the_dead_in_small_steps():
    clock = Clock()
    shelf = a_shelf(clock, most=100)
    for number in range(10):
        shelf.put(number, number, 1)
    clock.now += 11
    shelf.sweep(4)
    assert len(shelf) == 6

    shelf.sweep(100)
    assert (len(shelf), shelf.held_bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 120)), max_size=60))
def test_neither_bound_is_ever_passed_and_the_sum_is_true(puts):
    shelf = a_shelf()
    kept = {}
    for key, size_bytes in puts:
        fits = shelf.put(key, key, size_bytes)
        kept.pop(key, None)
        if fits:
            kept[key] = size_bytes

        assert len(shelf) <= 3
        assert shelf.held_bytes <= 100
        assert shelf.held_bytes == sum(size for name, size in kept.items() if shelf.get(name) is not None)
        kept = {name: size for name, size in kept.items() if shelf.get(name) is not None}
