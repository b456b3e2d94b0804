"""The bill so far, told from the history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.edit import Plan, Replace
from proxy.conversation.model import Text
from proxy.pruning.purse import MAY_LOSE, bills, call_ends, purse
from proxy.pruning.situation import Prices
from tests.pruning.builders import a_message, a_situation, answered, rounds, user, words

PRICES = Prices(read=0.1, write=1.25)


def clear(situation, message, removed, decided):
    return Replace(
        at=situation.keys[message], part=0, kind="clear", text="-", reason="", tool="read", tokens_before=removed,
        tokens_after=0, decided=decided,
    )  # fmt: skip


def test_a_call_ended_where_an_assistant_message_begins():
    situation = a_situation(answered(rounds(words("a", 10), words("b", 10))))

    assert list(call_ends(situation)) == [1, 3, 5]


def test_a_row_of_assistant_messages_is_one_answer():
    said = a_message("assistant", Text(text="a"))

    assert list(call_ends(a_situation([user(), said, said, user()]))) == [1]


def test_without_edits_the_calls_have_cost_what_they_would_have():
    situation = a_situation(answered(rounds(words("a", 100))))
    tokens = situation.message_tokens
    first = 1.25 * tokens[0]
    second = 0.1 * tokens[0] + 1.25 * (tokens[1] + tokens[2])

    assert bills(situation, PRICES) == pytest.approx((first + second, first + second))
    assert purse(situation, PRICES) == pytest.approx(MAY_LOSE * (first + second))


def test_system_and_tools_are_on_the_bill():
    plain = a_situation(answered(rounds(words("a", 100))))
    with_head = a_situation(plain.messages, total=plain.total + 1000)

    assert bills(with_head, PRICES)[0] - bills(plain, PRICES)[0] == pytest.approx(1.25 * 1000 + 0.1 * 1000)


def test_what_is_too_short_for_the_cache_is_paid_in_full():
    messages = answered(rounds(words("a", 100), words("b", 200)))
    tokens = a_situation(messages).message_tokens
    first, second, third = tokens[0], sum(tokens[:3]), sum(tokens[:5])
    least = Prices(read=0.1, write=1.25, minimum=second)
    edited = a_situation(messages, Plan((clear(a_situation(messages), 2, 90, decided=5),)))

    assert bills(a_situation(messages), least)[0] == pytest.approx(
        first + 1.25 * second + 0.1 * second + 1.25 * (third - second)
    )
    # The cache has an entry behind message 0, which is too short.
    assert bills(edited, least)[1] == pytest.approx(first + 1.25 * second + 1.25 * (third - 90))


def test_an_edit_costs_a_rewrite_from_the_last_call_before_it_and_saves_at_every_later_one():
    messages = answered(rounds(words("a", 100), words("b", 100), words("c", 100)))
    plain = a_situation(messages)
    tokens = plain.message_tokens
    # Decided at the third call (5 messages). The first had ended behind message 0: from there on all is written anew.
    edited = a_situation(messages, Plan((clear(plain, 2, 90, decided=5),)))

    unpruned, paid = bills(edited, PRICES)

    at_once = 0.1 * (tokens[1] + tokens[2]) - 1.25 * (tokens[1] + tokens[2] - 90)
    later = 0.1 * 90
    assert unpruned == pytest.approx(bills(plain, PRICES)[0])
    assert unpruned - paid == pytest.approx(at_once + later)


def test_an_edit_at_arrival_saves_its_writing_too():
    messages = answered(rounds(words("a", 100), words("b", 100)))
    plain = a_situation(messages)
    edited = a_situation(messages, Plan((clear(plain, 2, 90, decided=3),)))

    unpruned, paid = bills(edited, PRICES)

    assert unpruned - paid == pytest.approx(1.25 * 90 + 0.1 * 90)


def test_a_conversation_that_has_lost_may_stake_nothing():
    messages = answered(rounds(words("a", 100), *(words(str(n), 1000) for n in range(3)), words("b", 10)))
    plain = a_situation(messages)
    edited = a_situation(messages, Plan((clear(plain, 2, 90, decided=9),)))

    assert purse(edited, PRICES) == 0.0


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), st.data())
def test_edits_at_arrival_never_cost_anything(sizes, data):
    messages = answered(rounds(*(words(str(n), size) for n, size in enumerate(sizes))))
    plain = a_situation(messages)
    chosen = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    edits = tuple(clear(plain, 2 + 2 * n, min(3, sizes[n]), decided=3 + 2 * n) for n in sorted(chosen))
    unpruned, paid = bills(a_situation(messages, Plan(edits)), PRICES)

    assert paid <= unpruned + 1e-6


def test_a_change_in_front_of_all_entries_cost_the_head_where_it_has_no_breakpoint():
    messages = answered(rounds(words("a", 100), words("b", 100)))
    plain = a_situation(messages)
    total = plain.total + 1000
    edits = Plan((clear(plain, 0, 1, decided=3),))
    marked, alone = (a_situation(messages, edits, total=total - 1, head=1000, head_kept=kept) for kept in (True, False))

    assert bills(alone, PRICES)[1] - bills(marked, PRICES)[1] == pytest.approx(1.15 * 1000)
    any_prefix = Prices(read=0.1, write=1.0)
    assert bills(alone, any_prefix) == bills(marked, any_prefix)
