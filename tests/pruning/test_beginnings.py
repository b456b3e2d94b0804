import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.pruning.beginnings import without_beginnings
from proxy.pruning.identifiers import words

CODE = [f"    value_{number} = readThing({number})" for number in range(50)]
NAMES = {word for line in CODE for word in words(line)}


def begun(beginning: str) -> str:
    """The code as a tool shows it: `beginning` with the line's number and two letters of it before each line."""
    return "\n".join(
        beginning.format(number=number, hash="abcdefghij"[number % 9 :][:2]) + line
        for number, line in enumerate(CODE, 1024)
    )


@pytest.mark.parametrize("beginning", ["{number}{hash}|", " {number}{hash}|", "{number}:{hash}|", "{number}#{hash}:"])
def test_line_hashes_are_no_names(beginning):
    assert words(begun(beginning)) == dict.fromkeys([*words("\n".join(CODE))], 1) | {"readThing": 50}


def test_a_found_line_names_its_file_and_what_stands_in_it():
    found = words(begun("src/app/a.py:{number}:").replace(":    ", ":"))

    assert found["src/app/a.py"] == 50
    assert found.keys() >= NAMES | {"1024", "1073"}


def test_a_heading_and_a_few_other_lines_may_stand_between():
    text = "Output of a_tool:\n" + begun("{number}{hash}|").replace("\n1030", "\n...\n1030")

    assert words(text).keys() == NAMES | {"a_tool"}


UNTOUCHED = [
    pytest.param("{number}\t", id="plain numbers are quoted by calls"),
    pytest.param("{number}|", id="a table with numbers as keys"),
    pytest.param("{number},", id="comma-separated values"),
    pytest.param("user{number}|", id="a table with names as keys"),
    pytest.param("{number}{hash}cdefg|", id="a table with long keys"),
    pytest.param("app-{number}-{hash} ", id="names with numbers in them"),
    pytest.param("/var/log/{number}.log ", id="a listing of files"),
    pytest.param("2026-01-02T10:00:{number} ", id="a log"),
    pytest.param("10:{number}:01 ", id="a log with times"),
    pytest.param("", id="code"),
]


@pytest.mark.parametrize("beginning", UNTOUCHED)
def test_other_texts_are_left_alone(beginning):
    text = begun(beginning)

    assert without_beginnings(text) is text


def test_a_first_column_that_looks_like_a_hash_but_does_not_rise_is_left_alone():
    text = "\n".join(f"{number * 7919 % 1009}ab|a_value" for number in range(60))

    assert without_beginnings(text) is text


@pytest.mark.parametrize(("beginning", "lines"), [("{number}{hash}|", 39), ("a.py:{number}:", 5)])
def test_a_few_lines_are_left_alone(beginning, lines):
    """The next edits name the hashes of the few lines that an edit shows."""
    text = "\n".join(begun(beginning).split("\n")[:lines])

    assert without_beginnings(text) is text


@given(st.lists(st.text("aZ_19:|#-./ \t"), max_size=30), st.integers(0, 30))
def test_a_text_loses_nothing_when_more_than_a_fifth_of_its_lines_begin_otherwise(lines, at):
    others = ["aName"] * (len(lines) // 4 + 1)
    text = "\n".join([*lines[:at], *others, *lines[at:]])

    assert without_beginnings(text) is text


@given(
    st.lists(st.text("aZ_19:|#-./ \t", max_size=12), min_size=30, max_size=60),
    st.sampled_from(["{}ab|", "{}:ab|", "{}#ab:", "a/b.py:{}:"]),
)
def test_what_stands_behind_the_beginnings_stays(lines, beginning):
    text = "\n".join(beginning.format(number) + " " + line for number, line in enumerate(lines))

    assert words(text).keys() >= words("\n".join(lines)).keys()
