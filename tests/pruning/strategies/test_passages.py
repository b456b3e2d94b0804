"""What the index leaves out makes no difference to what becomes a reference."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import Media, ToolCall
from proxy.pruning.strategies.passages import Passages
from proxy.pruning.strategies.repeats import Earlier, repeats
from tests.pruning.builders import a_situation, result, rounds, words

NOTHING = frozenset()


def numbered(numbers):
    return "\n".join(f"{n}: this line is long enough to be worth something ({n})" for n in numbers)


def alike(text, situation, *, start=0, edited=NOTHING, passages=None):
    """The results of the situation that may hold what the text says."""
    end = len(situation.messages)
    known = passages or Passages()
    known.catch_up(situation.messages, situation.keys, end)
    return known.alike(text, situation.messages, situation.keys, range(start, end), edited)


def test_results_that_share_lines_are_found_with_their_calls():
    situation = a_situation(rounds(numbered(range(50)), words("other", 300), numbered(range(20, 70))))

    found = alike(numbered(range(30, 60)), situation)

    assert [(one.key, one.call.call_id) for one in found] == [(situation.keys[2], "c0"), (situation.keys[6], "c2")]


def test_an_equal_text_is_found_whatever_its_lines():
    situation = a_situation(rounds("a\nb\nc", "x" * 500_000))

    assert [one.key for one in alike("a\nb\nc", situation)] == [situation.keys[2]]
    assert [one.key for one in alike("x" * 500_000, situation)] == [situation.keys[4]]


def test_edited_results_and_pictures_are_not_whole():
    text = numbered(range(30))
    situation = a_situation([*rounds(text, text), result("c1", text, media=(Media(kind="image"),))])

    assert [one.key for one in alike(text, situation, edited=frozenset({(situation.keys[2], 0)}))] == [
        situation.keys[4]
    ]


def test_what_stands_in_front_of_a_summary_is_no_longer_there():
    text = numbered(range(30))
    situation = a_situation(rounds(text, text))

    assert [one.key for one in alike(text, situation, start=3)] == [situation.keys[4]]
    # Nor is a call: whatever said so before, the result has none now.
    assert [one.call for one in alike(text, situation, start=4)] == [None]


def test_conversations_that_part_share_an_index_but_no_results():
    passages = Passages()
    first = a_situation(rounds(numbered(range(30)), numbered(range(100, 130))))
    second = a_situation(rounds(numbered(range(30)), numbered(range(200, 230))))
    for situation in (first, second):
        alike("", situation, passages=passages)

    assert [one.key for one in alike(numbered(range(30)), second, passages=passages)] == [second.keys[2]]
    assert alike(numbered(range(100, 130)), second, passages=passages) == []
    assert [one.key for one in alike(numbered(range(100, 130)), first, passages=passages)] == [first.keys[4]]


def test_an_index_of_many_conversations_begins_anew_and_still_knows_this_one():
    passages = Passages()
    for number in range(300):
        alike("", a_situation(rounds(numbered(range(number * 100, number * 100 + 9)))), passages=passages)
    situation = a_situation(rounds(numbered(range(30))))

    assert len(alike(numbered(range(30)), situation, passages=passages)) == 1
    assert len(passages) < 100


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=40), min_size=1, max_size=3), st.data())
def test_the_same_becomes_a_reference_as_if_all_results_were_compared(earlier, data):
    texts = [numbered(numbers) for numbers in earlier]
    now = numbered(data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=60)))
    situation = a_situation(rounds(*texts))
    everything = [
        Earlier(situation.keys[2 + 2 * number], 0, text, _call(situation, number)) for number, text in enumerate(texts)
    ]

    assert repeats(now, alike(now, situation)) == repeats(now, everything)


def _call(situation, number) -> ToolCall:
    return situation.messages[1 + 2 * number].parts[0]
