import json
from math import inf, nan

import pytest

from proxy.conversation.model import NO_TOOLS
from proxy.dialects.fields import (
    MOST_ANSWER_BYTES,
    WholeAnswer,
    count,
    counts,
    mapping,
    name_of,
    objects,
    parse_tools,
    parsed,
    small_values,
    whole,
)
from proxy.wire.body import object_spans


def test_small_values_are_parsed_where_they_are_read_and_short():
    body = json.dumps({"model": "m", "messages": "short", "metadata": "x" * 5000, "n": 2}).encode()

    assert small_values(body, object_spans(body), {"model", "metadata", "n", "stream"}) == {"model": "m", "n": 2}


@pytest.mark.parametrize(
    ("value", "read"), [(5, 5), (0, None), (-1, None), (True, None), (5.0, None), ("5", None), (None, None)]
)
def test_a_limit_is_a_positive_whole_number(value, read):
    assert whole(value) == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        *((5, 5), (0, 0), (5.0, 5), (-1, None), (True, None), (inf, None), (nan, None), ("5", None)),
        # Numbers that neither the store nor the log could hold.
        *((2**53, 2**53), (2**53 + 1, None), (10**30, None), (1e30, None)),
    ],
)
def test_a_count_is_not_negative(value, read):
    assert count(value) == read


def test_of_an_object_what_is_no_count_is_none():
    said = {"a": 0, "b": 5.0, "c": "5", "d": {"e": 1}, "\ud800": 1}

    assert counts(said, "abcdf") == {"a": 0, "b": 5, "c": None, "d": None, "f": None}


@pytest.mark.parametrize(
    ("value", "name"), [("gpt-4o", "gpt-4o"), ("é", "é"), ("a\ud800", "a?"), (5, "5"), (None, ""), ("", "")]
)
def test_a_name_is_text_whatever_stood_in_its_place(value, name):
    assert name_of(value) == name


@pytest.mark.parametrize("odd", [None, 5, "x", []])
def test_what_is_no_object_is_an_empty_one(odd):
    assert mapping(odd) == {}
    assert objects(odd) == []


def test_objects_of_an_array_are_picked_out():
    assert objects([{"a": 1}, 5, None, {}]) == [{"a": 1}, {}]


def test_broken_json_is_nothing():
    assert parsed(b'{"a":1}') == {"a": 1}
    assert parsed(b"{") is None
    assert parsed(b"[" * 100_000) is None


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        ({"type": "function", "function": {"name": "f"}}, "f"),
        ({"type": "function", "name": "f"}, "f"),
        ({"name": "f", "input_schema": {}}, "f"),
        ({"type": "web_search"}, "web_search"),
        ({"function": None}, ""),
    ],
)
def test_a_tool_has_a_name_in_every_format(definition, name):
    read = parse_tools(json.dumps([definition], indent=2).encode())

    assert read.names == (name,)
    assert json.loads(read.text) == [definition]


def test_tools_that_mean_the_same_have_one_digest():
    one, other = (parse_tools(raw) for raw in (b'[{"name":"f","x":null}]', b'[ {"name": "f"} ]'))

    assert one.digest == other.digest != parse_tools(b'[{"name":"g"}]').digest
    assert parse_tools(b'{"name":"f"}') == parse_tools(b"[]") == NO_TOOLS


def test_an_answer_in_pieces_is_one_value():
    answer = WholeAnswer()
    for piece in (b"\n\n", b'{"a"', b":1}"):
        answer.feed(piece)

    assert answer.parsed() == {"a": 1}


def test_an_answer_over_the_limit_is_given_up():
    answer = WholeAnswer()
    answer.feed(b'"')
    answer.feed(b"x" * MOST_ANSWER_BYTES)
    answer.feed(b'"')

    assert answer.parsed() is None
