import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.wire.sse import EventSplitter, parse_event


def events_of(pieces, limit_bytes=1 << 20):
    """Every event that carries data, as (name, data); what is left at the end included."""
    splitter = EventSplitter(limit_bytes)
    found = [event for piece in pieces for event in splitter.feed(piece)]
    rest = splitter.rest()
    return [(event.name, event.data) for event in [*found, *([rest] if rest else [])] if event.data]


def by_the_standard(stream):
    """The standard's own algorithm, line by line; an event that does not end is taken, too."""
    found, name, lines = [], "", []
    for line in [*re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf")), b""]:
        if not line:
            if b"\n".join(lines):
                found.append((name, b"\n".join(lines)))
            name, lines = "", []
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            lines.append(value)
        elif key == b"event":
            name = value.decode("utf-8", "replace")
    return found


line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.sampled_from(
    [
        b"data: {}",
        b'data: {"a":1}',
        b"data:x",
        b"data:  two",
        b"data",
        b"data: ",
        b"event: ping",
        b"event:m",
        b": keep-alive",
        b":",
        b"id: 7",
        b"retry: 10",
        b"datax: no",
        b"",
        b"",
        "data: \u2028 \u2029 \u0085 é 😀".encode(),
        b"data: \xff",
    ]
)
streams = st.lists(st.tuples(lines, line_ends), max_size=25).map(lambda found: b"".join(a + b for a, b in found))
cuts = st.lists(st.integers(0, 400), max_size=12)


def cut(stream, places):
    edges = [0, *sorted({place % (len(stream) + 1) for place in places}), len(stream)]
    return [stream[edges[at] : edges[at + 1]] for at in range(len(edges) - 1)]


@given(stream=streams, places=cuts, marked=st.booleans())
@example(stream=b"data: {\rdata: }\n\n", places=[], marked=False)
@example(stream=b"data: a\r\r\n", places=[8, 9], marked=False)
@example(stream=b"data: a", places=[1], marked=True)
@example(stream=b"\r\ndata: a\n\r\ndata: b\r\r", places=list(range(30)), marked=True)
def test_events_are_those_of_the_standard_however_the_bytes_are_cut(stream, places, marked):
    stream = (b"\xef\xbb\xbf" if marked else b"") + stream

    assert events_of(cut(stream, places)) == by_the_standard(stream)


@given(stream=streams, places=cuts)
def test_the_raw_events_and_the_rest_are_the_stream(stream, places):
    splitter = EventSplitter()
    raw = b"".join(event.raw for piece in cut(stream, places) for event in splitter.feed(piece))

    assert stream.startswith(raw)
    assert splitter.held_bytes == len(stream) - len(raw)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("space", [b" ", b""])
def test_all_line_ends_and_a_missing_space_are_read(end, space):
    stream = (
        b"event:" + space + b"ping" + end + b"data:" + space + b"{}" + end + end + b"data:" + space + b"1" + end + end
    )

    assert events_of([stream]) == [("ping", b"{}"), ("", b"1")]


def test_several_data_lines_are_joined():
    assert events_of([b'data: {\ndata: "a": 1\ndata: }\n\n']) == [("", b'{\n"a": 1\n}')]


def test_separators_of_unicode_are_content():
    text = "data: a\u2028b\u2029c\u0085d\n\n".encode()

    assert events_of([text]) == [("", text[6:-2])]


def test_a_character_cut_in_two_is_whole_again():
    text = "data: \u00e9 \u20ac \U0001f600\n\n".encode()

    for at in range(len(text)):
        assert events_of([text[:at], text[at:]]) == [("", text[6:-2])]


def test_comments_are_events_without_data():
    splitter = EventSplitter()

    assert [(event.name, event.data) for event in splitter.feed(b": OPENROUTER PROCESSING\n\n")] == [("", b"")]


def test_an_event_is_given_up_once_it_is_too_large_and_the_next_one_is_read():
    splitter = EventSplitter(limit_bytes=100)
    found = splitter.feed(b"data: small\n\n")
    for _ in range(50):
        found += splitter.feed(b"data: " + b"x" * 60 + b"\n")
        assert splitter.held_bytes <= 100
    found += splitter.feed(b"data: the end of it\n\ndata: next\n\n")

    assert [event.data for event in found if event.data] == [b"small", b"next"]
    assert splitter.rest() is None


def test_a_large_event_in_one_chunk_is_read_whatever_the_limit():
    """The bytes are there already; the limit is for what must be kept."""
    body = b"data: " + b"x" * 1000 + b"\n\n"

    assert events_of([body], limit_bytes=100) == [("", b"x" * 1000)]


def test_what_is_given_up_may_end_exactly_between_two_chunks():
    splitter = EventSplitter(limit_bytes=10)
    found = splitter.feed(b"data: 0123456789\n") + splitter.feed(b"\n") + splitter.feed(b"data: a\n\n")

    assert [event.data for event in found if event.data] == [b"a"]


def test_nothing_is_left_after_a_clean_end():
    splitter = EventSplitter()
    splitter.feed(b"data: a\n\n\r\n")

    assert splitter.rest() is None


def test_an_event_knows_its_own_bytes():
    raw = b"id: 1\nevent: x\ndata: y\n\n"

    assert parse_event(raw).raw == raw
    assert parse_event(raw).name == "x"
