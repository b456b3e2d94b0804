import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.elements import ElementSplitter

TEXTS = st.text(alphabet='ab"\\{}[],é\n', max_size=12)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def split(pieces, **more):
    splitter = ElementSplitter(**more)
    return [element for piece in pieces for element in splitter.feed(piece)]


@given(
    st.lists(OBJECTS, max_size=4),
    st.sampled_from([("[", "\n,\r\n", "\n]"), ("", "\n", "")]),
    st.lists(st.integers(0, 400)),
)
def test_any_cut_of_the_bytes_gives_the_same_objects(objects, frame, places):
    before, between, after = frame
    body = (
        before + between.join(json.dumps(value, indent=1, ensure_ascii=False) for value in objects) + after
    ).encode()
    edges = [0, *sorted({place % (len(body) + 1) for place in places}), len(body)]

    assert [json.loads(element) for element in split([body])] == objects
    assert split(body[start:end] for start, end in pairwise(edges)) == split([body])
    assert split(bytes([byte]) for byte in body) == split([body])


def test_objects_are_the_bytes_that_came():
    assert split([b' [ { "a" : 1 }', b' , {"b":{}} ]']) == [b'{ "a" : 1 }', b'{"b":{}}']


def test_an_object_comes_out_as_soon_as_it_ends():
    splitter = ElementSplitter()

    assert splitter.feed(b'[{"a":1') == []
    assert splitter.held_bytes == 6
    assert splitter.feed(b"}") == [b'{"a":1}']
    assert splitter.held_bytes == 0


def test_an_object_over_the_limit_is_given_up_and_reading_goes_on():
    splitter = ElementSplitter(limit_bytes=20)
    large = b'{"a":"' + b"}x" * 20 + b'"}'

    assert [splitter.feed(large[at : at + 7]) for at in range(0, len(large), 7)] == [[]] * 7
    assert splitter.held_bytes == 0
    assert splitter.feed(b',{"b":2}]') == [b'{"b":2}']


def test_what_is_no_object_is_skipped():
    assert split([b'["{", 5, null, "}"]}} {"a":1}']) == [b'{"a":1}']
