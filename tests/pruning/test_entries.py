"""What a cache with breakpoints finds of a history that changes."""

from proxy.conversation.model import Text
from proxy.pruning.entries import LOOKBACK, Entries
from tests.pruning.builders import a_message, answered, rounds, words

MESSAGES = answered(rounds(*(words(str(number), 10) for number in range(30))))


def played(*calls):
    """Entries after calls of these lengths; a pair: the message that this call changed, and its length."""
    entries = Entries(MESSAGES)
    for call in calls:
        at, end = call if isinstance(call, tuple) else (None, call)
        if at is not None:
            entries.changed(at)
        entries.ended(end)
    return entries


def test_without_a_change_all_that_the_last_call_had_sent_is_found():
    assert played(1, 3, 5).found(5, 7) == 5


def test_a_change_leaves_what_an_earlier_call_had_ended_with():
    assert [played(1, 3, 5).found(at, 7) for at in (0, 1, 2, 3, 4, 5)] == [0, 1, 1, 3, 3, 5]


def test_entries_behind_a_change_are_never_found_again():
    # The third call changes message 2: the second call's entry, which ended at 3, holds the old text.
    assert played(1, 3, (2, 5)).found(4, 7) == 1
    assert played(1, 3, (2, 5), 7, 9).found(8, 11) == 7


def test_an_entry_that_ends_right_in_front_of_a_change_is_found_as_before():
    assert played(1, 3, (3, 5)).found(4, 7) == 3


def test_an_entry_that_is_too_far_back_is_not_found():
    calls = range(1, 1 + LOOKBACK, 2)

    # Blocks 2 to 20 and the first: with the breakpoint's own block, 20 are looked at.
    assert played(*calls).found(1, LOOKBACK) == 1
    assert played(*calls).found(1, 1 + LOOKBACK) == 0


def test_each_part_of_a_message_counts_as_a_block():
    wide = a_message("user", *(Text(text=str(number)) for number in range(LOOKBACK - 1)))
    entries = Entries([MESSAGES[0], wide, MESSAGES[1]])
    entries.ended(1)

    assert entries.found(1, 2) == 1
    assert entries.found(1, 3) == 0


def test_after_a_call_that_found_nothing_only_its_own_entry_and_later_ones_are_left():
    entries = played(1, 3, 5)
    entries.forget()
    entries.ended(7)

    assert entries.found(5, 9) == 0
    assert entries.found(7, 9) == 7
