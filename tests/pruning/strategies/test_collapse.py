import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.pruning.strategies.collapse import collapse


def test_lines_that_differ_only_in_time_are_folded_with_their_number():
    log = [f"2026-01-02T10:00:{n:02}Z poll queue took {n} ms" for n in range(20)]

    assert collapse("\n".join(["start", *log, "end"])) == "\n".join(
        ["start", log[0], "[18 more lines like these]", log[-1], "end"]
    )


def test_lines_that_differ_in_anything_else_stay():
    text = "\n".join(f"file_{n}.txt" for n in range(20))

    assert collapse(text) is text


@pytest.mark.parametrize("word", ["ERROR", "warning", "Traceback", "failed"])
def test_lines_about_trouble_stay(word):
    lines = (
        [f"10:00:{n:02} poll" for n in range(10)]
        + [f"10:01:00 {word}: lost"]
        + [f"10:02:{n:02} poll" for n in range(10)]
    )

    assert lines[10] in collapse("\n".join(lines))


def test_passing_tests_are_counted_and_failing_ones_stay():
    lines = [f"tests/test_a.py::test_{n} PASSED  [ {n}%]" for n in range(30)]
    lines.insert(15, "tests/test_a.py::test_x FAILED")

    folded = collapse("\n".join(lines))

    assert "[13 more passing tests]" in folded
    assert "test_x FAILED" in folded


def test_installer_steps_are_counted():
    lines = [f"Collecting package-{n}" for n in range(12)]

    assert collapse("\n".join([*lines, "Successfully installed"])).split("\n") == [
        lines[0],
        "[10 more installer steps]",
        lines[-1],
        "Successfully installed",
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ).filter(lambda value: isinstance(value, dict | list))
)
def test_spread_out_json_says_the_same_compactly(value):
    text = json.dumps(value, indent=2)
    folded = collapse(text)

    assert json.loads(folded) == value
    assert len(folded) <= len(text)


def test_numbers_in_json_stay_as_they_are_written():
    assert collapse('{"a": 1.0, "b": 12345678901234567890, "c": 1e5, "d": "x  y"}') == (
        '{"a":1.0,"b":12345678901234567890,"c":1e5,"d":"x  y"}'
    )


def test_what_only_looks_like_json_stays():
    assert collapse("{ not json }") == "{ not json }"
