import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.sse import EventSplitter
from proxy.wire.sse_filter import EventFilter

DROP = b"drop"


def a_filter():
    return EventFilter(lambda data: data == DROP)


def through(*chunks):
    passes = a_filter()
    return b"".join([*map(passes, chunks), passes(b"")])


STREAM = b": hello\n\nevent: x\ndata: one\n\ndata: drop\n\ndata: two\r\n\r\ndata: [DONE]\n\n"
KEPT = STREAM.replace(b"data: drop\n\n", b"")


def test_only_the_event_that_is_dropped_is_missing():
    assert through(STREAM) == KEPT


def test_it_counts_what_it_dropped():
    passes = a_filter()
    passes(STREAM)

    assert passes.dropped == 1


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_cuts_anywhere_change_nothing(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(edges) if start < end]

    assert through(*chunks) == KEPT


def test_byte_by_byte_an_event_is_passed_on_as_soon_as_it_is_whole():
    passes = a_filter()
    seen = [passes(bytes([byte])) for byte in b"data: one\n\ndata: two\n\n"]

    assert [piece for piece in seen if piece] == [b"data: one\n\n", b"data: two\n\n"]


def test_what_is_unfinished_at_the_end_comes_out_then():
    assert through(b"data: one\n\ndata: dro") == b"data: one\n\ndata: dro"


def test_the_last_event_is_dropped_without_its_blank_line_too():
    assert through(b"data: one\n\ndata: drop") == through(b"data: one\n\n", b"data: drop\n") == b"data: one\n\n"


def test_an_event_larger_than_any_worth_dropping_is_let_through_as_it_comes():
    passes = a_filter()
    huge = b"data: " + b"x" * 300_000
    first = passes(huge)
    second = passes(b"y" * 10)
    last = passes(b"z\n\ndata: drop\n\ndata: more\n\n")

    assert (first, second) == (huge, b"y" * 10)
    assert last == b"z\n\ndata: more\n\n"
    assert passes(b"") == b""


def test_of_an_event_too_large_to_be_read_every_byte_passes(monkeypatch):
    monkeypatch.setattr("proxy.wire.sse_filter.EventSplitter", partial(EventSplitter, limit_bytes=400_000))
    huge = [b"data: " + b"x" * 300_000, b"y" * 300_000, b"z\n\ndata: one\n\ndata: drop\n\ndata: two"]

    assert through(*huge) == b"".join(huge).replace(b"data: drop\n\n", b"")


@pytest.mark.parametrize("step", [1, 100])
def test_a_byte_order_mark_stays(step):
    stream = b"\xef\xbb\xbfdata: one\n\ndata: drop\n\n"

    assert through(*[stream[at : at + step] for at in range(0, len(stream), step)]) == b"\xef\xbb\xbfdata: one\n\n"


def test_after_a_large_event_was_cut_off_nothing_is_said_twice():
    passes = a_filter()
    huge = b"data: " + b"x" * 300_000

    assert passes(huge) + passes(b"") == huge


@given(st.lists(st.sampled_from([b"data: a\n\n", b"data: drop\n\n", b":\n\n", b"data: b\r\n\r\n"]), max_size=12))
def test_without_events_to_drop_every_byte_passes(events):
    kept = b"".join(event for event in events if event != b"data: drop\n\n")

    assert through(b"".join(events) or b":") == (kept if events else b":")
