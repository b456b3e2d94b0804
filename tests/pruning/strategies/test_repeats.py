"""References lose nothing: whoever follows them has the text again."""

import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import ToolCall
from proxy.pruning.strategies.repeats import Earlier, repeats

CALL = ToolCall(call_id="c", name="read", arguments='{"path":"a.py"}')


def an_earlier(text):
    return Earlier(b"key", 0, text, CALL)


def unfolded(text, earlier):
    """The text with every reference followed."""
    lines = []
    others = earlier.split("\n")
    for line in text.split("\n"):
        found = re.fullmatch(r'\[(\d+) lines, unchanged, as .* gave above: from "(.*?)" to "(.*)"\]', line)
        if found is None:
            lines.append(line)
            continue
        length = int(found[1])
        starts = [
            at
            for at in range(len(others) - length + 1)
            if others[at].startswith(found[2].rstrip("…")) and others[at + length - 1].startswith(found[3].rstrip("…"))
        ]
        lines += others[starts[0] : starts[0] + length]
    return "\n".join(lines)


def numbered(numbers):
    return "\n".join(f"{n}: this line is long enough to be worth something ({n})" for n in numbers)


def test_an_equal_text_becomes_one_line_that_names_the_earlier_call():
    repeat = repeats(numbered(range(50)), [an_earlier(numbered(range(50)))])

    assert repeat.text.startswith("[Exactly the same output (")
    assert 'read({"path":"a.py"})' in repeat.text


def test_a_changed_file_shows_only_what_changed():
    before = numbered(range(100))
    after = before.replace("50: this line", "50: this changed line")
    repeat = repeats(after, [an_earlier(before)])

    assert repeat.text.count("\n") == 2
    assert "50: this changed line" in repeat.text
    assert unfolded(repeat.text, before) == after


def test_the_earlier_result_that_holds_most_of_it_is_referred_to():
    little, much = an_earlier(numbered(range(20))), Earlier(b"much", 1, numbered(range(5, 90)), CALL)
    repeat = repeats(numbered(range(100)), [little, much])

    assert (repeat.of, repeat.of_part) == (b"much", 1)


def test_short_runs_and_other_texts_stay():
    assert repeats(numbered(range(30)), [an_earlier(numbered(range(3)) + "\n" + numbered(range(100, 130)))]) is None
    assert repeats("short", [an_earlier("short")]) is None
    assert repeats(numbered(range(9)), []) is None


@given(st.lists(st.integers(0, 40), min_size=10, max_size=120), st.lists(st.integers(0, 40), min_size=10, max_size=120))
def test_following_the_references_gives_the_text_back(earlier, now):
    before, after = numbered(sorted(set(earlier))), numbered(now)
    repeat = repeats(after, [an_earlier(before)])

    if repeat is not None and after != before:
        assert unfolded(repeat.text, before) == after
