"""One cut for several results that are too much together."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.compaction.squeeze import level

SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


def test_small_ones_leave_their_room_to_the_larger_ones():
    assert level([100, 5000, 5000], 5100) == 2500
    assert level([100, 200], 1000) == 200
    assert level([], 1000) == 0


@given(SIZES, st.integers(0, 50_000))
def test_what_is_cut_to_the_level_fits_together(sizes, room):
    cut = level(sizes, room)

    assert sum(min(size, cut) for size in sizes) <= room or room < len(sizes)


@given(SIZES)
def test_nothing_is_cut_where_all_fit(sizes):
    assert level(sizes, sum(sizes)) == max(sizes)
