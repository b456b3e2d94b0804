import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.lines import Lines, Notes

A = b"a" * 10_000


def kept(*bodies, room_bytes=10**6):
    lines = Lines(room_bytes)
    for number, body in enumerate(bodies):
        lines.keep("k", body, [len(body) // 2, len(body)], number)
    return lines


def test_a_body_that_goes_on_is_found_with_all_its_ends():
    assert kept(A).find("k", A + b"more") == (0, 2)


def test_a_body_that_differs_behind_an_end_shares_what_is_before_it():
    assert kept(A).find("k", A[:7_000] + b"b" * 9_000) == (0, 1)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 25])
def test_wherever_a_body_parts_from_its_line_all_ends_before_are_shared(number):
    ends = [10_000 * (at + 1) // number for at in range(number)]
    lines = Lines()
    lines.keep("k", A, ends, "line")

    for at in range(4_096, len(A)):
        shared = sum(end <= at for end in ends)
        assert lines.find("k", A[:at] + b"b" * 9_000) == (("line", shared) if shared else None)


def test_another_kind_another_beginning_and_a_shorter_body_share_nothing():
    lines = kept(A)

    assert lines.find("other", A) is None
    assert lines.find("k", b"b" + A) is None
    assert lines.find("k", A[:4_000]) is None


def test_short_bodies_are_not_kept():
    assert len(kept(b"a" * 4_000)) == 0


def test_a_line_that_goes_on_takes_the_place_of_its_beginning():
    lines = kept(A, A + b"b" * 1_000)

    assert len(lines) == 1
    assert lines.held_bytes == 2 * 11_000 + 2 * 1280
    assert lines.find("k", A + b"b" * 2_000) == (1, 2)


def test_what_was_used_longest_ago_goes_when_there_is_no_room():
    b, c = b"b" * 10_000, b"c" * 10_000
    lines = kept(A, b, room_bytes=47_000)
    lines.find("k", A)
    lines.keep("k", c, [10_000], 2)

    assert [bool(lines.find("k", body)) for body in (A, b, c)] == [True, False, True]
    assert lines.held_bytes == (2 * 10_000 + 2 * 1280) + (2 * 10_000 + 1280)


def test_what_is_too_large_is_told_before_it_is_kept():
    lines = Lines(room_bytes=50_000)
    for size in (10_000, 23_000, 24_000, 60_000):
        body = bytes([65 + size % 26]) * size
        lines.keep("k", body, [size // 2, size], size)
        assert lines.has_room(size, 2) == (lines.find("k", body) is not None)


def test_of_lines_that_begin_alike_only_the_newest_are_compared():
    bodies = [b"s" * 9_000 + bytes([65 + number]) * 500 for number in range(6)]
    lines = kept(*bodies)

    assert len(lines) == 4
    assert lines.find("k", bodies[5]) == (5, 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=30))
def test_bytes_held_are_those_of_the_lines_that_are_found(steps):
    lines = Lines(room_bytes=60_000)
    for letter, size in steps:
        body = bytes([97 + letter]) * (size * 2_000)
        lines.keep("k", body, [len(body)], size)

    assert lines.held_bytes <= 60_000
    assert (len(lines) == 0) == (lines.held_bytes == 0)


def test_only_what_is_new_is_made():
    first, made = Notes(), []

    def make(known):
        fresh = list(range(len(known), len(known) + 3))
        made.append(fresh)
        return fresh

    assert first.extended("n", make) == (0, 1, 2)
    assert first.extended("n", make) == (0, 1, 2)
    second = Notes(2, first)
    assert second.known("n") == 2
    assert second.extended("n", make) == (0, 1, 2, 3, 4)
    assert made == [[0, 1, 2], [2, 3, 4]]


def test_notes_that_are_made_one_by_one_are_made_for_new_messages_only():
    first, made = Notes(), []

    def make(given):
        made.append(given)
        return given * 2

    assert first.mapped("n", make, [1, 2, 3]) == first.mapped("n", make, [1, 2, 3]) == (2, 4, 6)
    assert Notes(2, first).mapped("n", make, [1, 2, 7, 8]) == (2, 4, 14, 16)
    assert made == [1, 2, 3, 7, 8]


def test_notes_under_another_name_are_not_taken():
    first = Notes()
    first.extended("one", lambda _: [1, 2])

    assert Notes(2, first).extended("other", lambda known: [len(known)]) == (0,)


def test_notes_behind_other_messages_count_from_there():
    assert Notes(5).behind(2).shared == 3
    assert Notes(1).behind(2).shared == 0


def listed(reached):
    """Notes the edits as they come: a list of what `make` was given each time."""
    return lambda known, new: (reached, [*(known or []), new])


def test_under_a_plan_that_grows_only_what_is_new_in_it_is_looked_at():
    notes = Notes()

    assert notes.under("n", ("a", "b"), listed(2)) == [("a", "b")]
    assert notes.under("n", ("a", "b", "c"), listed(1)) == [("a", "b"), ("c",)]
    assert notes.under("n", ("a", "b"), listed(9)) == [("a", "b")]
    assert notes.under("n", ("b",), listed(2)) == [("b",)]
    assert notes.under("other", ("a", "b"), listed(2)) == [("a", "b")]


def test_what_stood_under_a_plan_holds_while_the_messages_that_it_is_about_are_the_same():
    first = Notes()
    first.under("n", ("a",), listed(2))
    first.under("n", ("a", "b"), listed(1))
    first.under("n", ("a", "b", "c"), listed(3))

    assert Notes(3, first).under("n", ("a", "b", "c"), listed(9)) == [("a",), ("b",), ("c",)]
    # Of the last edit's message something has changed.
    assert Notes(2, first).under("n", ("a", "b", "c"), listed(9)) == [("a",), ("b",), ("c",)]
    assert Notes(2, first).under("n", ("a", "b", "d", "e"), listed(9)) == [("a",), ("b",), ("d", "e")]
    assert Notes(1, first).under("n", ("a", "b", "c"), listed(9)) == [("a", "b", "c")]


def test_what_a_conversation_carries_is_one_object_for_all_its_requests():
    first = Notes()
    carried = first.carried("names", list)
    second = Notes(3, first)

    assert first.carried("names", list) is carried
    assert second.carried("names", list) is carried
    assert second.carried("other", list) is not carried


def test_a_request_that_only_begins_alike_carries_its_own():
    first = Notes()
    carried = first.carried("names", list)

    assert Notes(1, first, goes_on=False).carried("names", list) is not carried


def test_a_line_can_take_the_place_of_one_that_ended_otherwise():
    lines = Lines(10**6)
    lines.keep("k", A + b"b" * 1_000, [len(A), len(A) + 1_000], first := ["first"])
    lines.keep("k", A + b"c" * 1_000, [len(A), len(A) + 1_000], second := ["second"], instead_of=first)

    assert len(lines) == 1
    assert lines.find("k", A + b"b" * 2_000) == (second, 1)
