import math
import re
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.pruning.beginnings import without_beginnings
from proxy.pruning.identifiers import best_of, identifiers, kind_of, words, words_of_json
from tests.pruning.builders import count


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("src/app/main.py", "path"),
        ("C:\\temp\\a", "path"),
        ("https://example.org/a", "url"),
        ("main.py", "file"),
        ("process.env", "file"),
        ("user_id", "symbol"),
        ("getUserName", "symbol"),
        ("MyClass.run_all", "symbol"),
        ("48213", "number"),
        ("W6876713", "id"),
        ("4f2a9c1", "id"),
        # ordinary words
        ("hello", ""),
        ("Hello", ""),
        ("HELLO", ""),
        ("abc", ""),
        ("well-known", ""),
        ("----", ""),
    ],
)
def test_each_kind_is_recognised(word, kind):
    assert kind_of(word) == kind


def test_symbols_and_files_go_before_numbers_and_addresses():
    text = "see https://example.org/a/long/address and 12345678 in handleRequest of server.py"

    assert identifiers(text, count, 6) == ("handleRequest", "server.py")


def test_what_stands_often_goes_before_what_stands_once():
    text = "oneThing " + "otherThing " * 8

    assert identifiers(text, count, 3) == ("otherThing",)


def test_what_stands_elsewhere_takes_no_room():
    assert identifiers("oneThing otherThing", count, 3, {"oneThing"}) == ("otherThing",)


def test_they_come_in_the_order_of_the_text():
    assert identifiers("b_second a_first b_second", count, 100) == ("b_second", "a_first")


def test_escaped_line_ends_in_call_arguments_do_not_glue_words():
    arguments = '{"text":"first_name\\nlast_name \\"a_quote\\" C:\\\\dir_a first_name"}'

    # In the order of the text, whatever the process's seed of hashes is: what is chosen among them must be the same on
    # every replica.
    assert words_of_json(arguments) == ("first_name", "last_name", "a_quote", "C:\\dir_a")


@given(st.text(max_size=400), st.integers(0, 40))
def test_they_fit_into_the_room_and_stand_in_the_text(text, room):
    kept = identifiers(text, count, room)

    assert count(" ".join(kept)) <= room or not kept
    assert all(word in text for word in kept)
    assert len(set(kept)) == len(kept)


@given(
    st.dictionaries(st.text("ab1_.", min_size=4, max_size=14).filter(kind_of), st.integers(1, 9)), st.integers(0, 60)
)
def test_the_likeliest_for_their_room_are_chosen_and_of_equals_the_first(found, room):
    weights = {"symbol": 8, "file": 8, "path": 4, "id": 3, "number": 2, "url": 1}

    def tokens(word):
        return 1 + len(word) // (3 if word.isdigit() else 5)

    left, chosen = room * 1.4, set()
    for word in sorted(found, key=lambda word: -weights[kind_of(word)] * (1 + math.log2(found[word])) / tokens(word)):
        if tokens(word) <= left:
            chosen.add(word)
            left -= tokens(word)

    # Counted as nothing, all of them fit.
    assert best_of(found, lambda text: 0, room) == tuple(word for word in found if word in chosen)


def test_very_many_words_are_looked_at_with_turns_for_others_in_between():
    found = {f"word_{number}": 1 for number in range(20_000)}
    steps = best_of.steps(found, count, 30_000)

    assert len(list(steps)) > 10
    assert len(best_of(found, count, 30_000)) > 5_000


def test_the_frequency_of_words_is_counted_without_their_punctuation():
    assert words("aa_b, cc_d: aa_b.") == {"aa_b": 2, "cc_d": 1}


def test_names_end_at_what_is_not_of_theirs_and_the_longest_are_cut():
    text = f"näme_a aa_b\ud800cc_d 12\u206634567 {'x1' * 61}"

    assert words(text) == {"me_a": 1, "aa_b": 1, "cc_d": 1, "34567": 1, "x1" * 60: 1}


PATTERN = re.compile(r"[A-Za-z0-9_$@~./\\:+-]{4,120}")


@given(st.text("ab_A1./:-é \n", max_size=300))
def test_they_are_the_words_of_a_pattern(text):
    assume(without_beginnings(text) is text)
    found = Counter(word for raw in PATTERN.findall(text) if kind_of(word := raw.strip(".:-+/\\~@$")))

    assert list(words(text).items()) == list(found.items())
