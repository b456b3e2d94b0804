"""What tool results take of a conversation."""

from itertools import product

from proxy.exchange.tally import Tally
from proxy.exchange.weigh import weigh
from tests.builders import a_clear, a_received, a_scale, a_summary, calls, plan_of, result, rounds, said, user, words

ENVELOPE = a_scale().overheads.result
HISTORY = rounds(*(words(str(number), 40 + 7 * (number % 5)) for number in range(12)))
LONGER = [*HISTORY, said("done"), user("next"), calls("y", "z", tool="look"), result("y", words("y", 65)), result("z")]
FORK = [*HISTORY[:-2], calls("c11", tool="look"), result("c11", words("another", 90))]


def sums(history, edits=(), tally=None):
    received = a_received(history)
    plan = plan_of(*(edit(received) for edit in edits))
    return (tally or Tally()).sums(weigh(received, a_scale()), received.keys, plan.edits)


def cleared(at):
    return lambda received: a_clear(received, at, after=60 if at == 4 else 2)


def summed_up(received):
    return a_summary(received, 1, 6)


def test_tokens_are_summed_up_by_tool_as_they_came():
    history = [*rounds("b", "c"), calls("a", tool="look"), result("a", words("a", 40))]

    for edits in ((), (cleared(2),)):
        assert sums(history, edits).by_tool == {"read": 2 + 2 * ENVELOPE, "look": 40 + ENVELOPE}


def test_without_results_there_is_nothing():
    assert sums([user(), said(), user()]) == ({}, ())


def test_the_largest_are_named_as_they_go_out_and_of_equal_ones_the_later_first():
    largest = sums(LONGER, [cleared(4), summed_up]).largest

    assert [(tokens, message) for tokens, message, _, _ in largest][:2] == [(68 + ENVELOPE, 21), (68 + ENVELOPE, 11)]
    assert len(largest) == 8
    assert (60, 5, "read", "clear") in sums(LONGER, [cleared(4)]).largest


def test_a_request_that_goes_on_comes_to_the_same_as_by_itself_and_so_does_one_that_does_not():
    histories, plans = (HISTORY, LONGER, FORK, HISTORY[:5]), ((), (cleared(4),), (cleared(4), cleared(2)))
    for first, second in product(product(histories, plans), repeat=2):
        tally = Tally()
        for history, edits in (first, second):
            assert sums(history, edits, tally) == sums(history, edits)


def test_a_plan_that_grows_comes_to_the_same_as_all_of_it():
    again = lambda received: a_clear(received, 10, text="[other]", after=70)
    grown = (cleared(4), cleared(10), again, summed_up, cleared(2), cleared(12), cleared(4), cleared(8))
    tally = Tally()
    for count in range(len(grown) + 1):
        history = HISTORY if count % 3 else LONGER

        assert sums(history, grown[:count], tally) == sums(history, grown[:count])
        assert sums(LONGER, grown[:count], tally) == sums(LONGER, grown[:count])
