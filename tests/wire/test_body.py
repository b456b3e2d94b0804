import json
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.body import NotPlain, array_spans, dumps, loads, object_spans, splice, without_elements, without_keys

# Larger whole numbers are legal JSON; they are read as floats, and are never written anew.
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=15,
)
styles = st.sampled_from(
    [
        {},
        {"separators": (",", ":")},
        {"indent": 2},
        {"indent": "\t", "ensure_ascii": False},
        {"separators": (" ,\r\n", "\t:  ")},
    ]
)


def encoded(value, style):
    """As UTF-8; lone surrogates can only be written as escapes."""
    text = json.dumps(value, **style)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, **{**style, "ensure_ascii": True}).encode()


@given(
    value=st.dictionaries(st.text(), values, max_size=6),
    style=styles,
    margins=st.sampled_from([(b"", b""), (b" \n", b"\r\n\t")]),
)
def test_the_spans_of_an_object_are_its_values(value, style, margins):
    before, after = margins
    raw = before + encoded(value, style) + after
    spans = object_spans(raw)

    assert list(spans) == list(value)
    for key, (start, end) in spans.items():
        assert json.loads(raw[start:end]) == value[key]
        assert raw[start:end] == raw[start:end].strip()


@given(value=st.lists(values, max_size=6), style=styles)
def test_the_spans_of_an_array_are_its_elements(value, style):
    raw = encoded(value, style)

    assert [json.loads(raw[start:end]) for start, end in array_spans(raw)] == value


@given(outer=st.text(), value=st.dictionaries(st.text(), values, min_size=1, max_size=4), style=styles)
def test_spans_inside_a_body_are_counted_from_its_beginning(outer, value, style):
    raw = encoded({outer: value, outer + "x": list(value.values())}, style)
    spans = object_spans(raw)
    inner, elements = object_spans(raw, *spans[outer]), array_spans(raw, *spans[outer + "x"])

    assert {key: json.loads(raw[slice(*span)]) for key, span in inner.items()} == value
    assert [json.loads(raw[slice(*span)]) for span in elements] == list(value.values())


@pytest.mark.parametrize(
    "odd", [b'"\\ud83d"', b"NaN", b"[1,-Infinity]", b'{"a":"\\udc00"}', b"123456789012345678901234567890"]
)
def test_legal_oddities_have_spans_too(odd):
    raw = b'{"before": [1, {"x":"]}"}], "odd" : ' + odd + b' , "after":{"a":"\\"}"}}'
    spans = object_spans(raw)

    assert {key: raw[slice(*span)] for key, span in spans.items()} == {
        "before": b'[1, {"x":"]}"}]',
        "odd": odd,
        "after": b'{"a":"\\"}"}',
    }
    listed = b"[ 1 ," + odd + b" , {}]"

    assert [listed[slice(*span)] for span in array_spans(listed)] == [b"1", odd, b"{}"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"  ",
        b"[]",
        b"7",
        b'"x"',
        b"null",
        b"{",
        b'{"a":1',
        b'{"a":1}}',
        b'{"a":1} x',
        b'{"a":1,}',
        b"{a:1}",
        b'{"a" 1}',
        b"\xff",
        b'{"a":\xff}',
    ],
)
def test_what_is_not_an_object_has_no_spans(raw):
    with pytest.raises(NotPlain):
        object_spans(raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1,2", b"[1,]", b"[1 2]", b"[1]]", b"null", b"[\xff]"])
def test_what_is_not_an_array_has_no_spans(raw):
    with pytest.raises(NotPlain):
        array_spans(raw)


@pytest.mark.parametrize(
    "raw", [b'{"a":1,"a":2}', b'{"a":1,"b":2,"a":3}', b'{"a":1,"\\u0061":2}', b'{"a":"\\ud83d","a":2}']
)
def test_an_object_with_a_key_twice_has_no_single_meaning(raw):
    with pytest.raises(NotPlain):
        object_spans(raw)


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000])
def test_any_depth_ends_in_spans_or_in_our_own_error(raw):
    for find in (array_spans, object_spans):
        try:
            found = find(raw)
        except NotPlain:
            continue
        assert len(found) == 1


@given(
    body=st.binary(max_size=60),
    pieces=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.binary(max_size=4)), max_size=5),
)
def test_a_splice_changes_its_spans_and_nothing_else(body, pieces):
    ends = [min(end, len(body)) for end in accumulate(step for skip, size, _ in pieces for step in (skip, size))]
    spans = list(zip(ends[::2], ends[1::2], strict=True))
    changes = [(span, text) for span, (_, _, text) in zip(spans, pieces, strict=True)]
    expected, position = b"", 0
    for (start, end), text in changes:
        expected += body[position:start] + text
        position = end

    assert splice(body, changes) == expected + body[position:]
    assert splice(body, []) == body


def test_insertions_at_one_place_keep_their_order():
    assert splice(b"ab", [((1, 1), b"1"), ((1, 1), b"2"), ((0, 1), b"A")]) == b"A12b"


def test_splices_that_overlap_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        splice(b"abcdef", [((0, 3), b"x"), ((2, 4), b"y")])


@given(
    value=st.dictionaries(st.text(max_size=3), values, max_size=6),
    style=styles,
    doomed=st.sets(st.text(max_size=3), max_size=4),
    chosen=st.integers(0, 63),
)
def test_an_object_without_some_keys_keeps_the_others_bytes(value, style, doomed, chosen):
    doomed |= {key for at, key in enumerate(value) if chosen >> at & 1}
    raw = encoded(value, style)
    left = without_keys(raw, doomed)
    kept = [key for key in value if key not in doomed]

    assert json.loads(left) == {key: value[key] for key in kept}
    assert [left[slice(*span)] for span in object_spans(left).values()] == [
        raw[slice(*object_spans(raw)[key])] for key in kept
    ]
    if len(kept) == len(value):
        assert left == raw


@given(value=st.lists(values, max_size=6), style=styles, chosen=st.integers(0, 63))
def test_an_array_without_some_elements_keeps_the_others_bytes(value, style, chosen):
    doomed = {at for at in range(len(value)) if chosen >> at & 1}
    raw = encoded({"a": 0, "list": value, "z": 1}, style)
    start, end = object_spans(raw)["list"]
    left = without_elements(raw, start, array_spans(raw, start, end), doomed)

    assert json.loads(left) == {"a": 0, "list": [item for at, item in enumerate(value) if at not in doomed], "z": 1}
    assert left[:start] == raw[:start]
    assert left.endswith(raw[end:])


@given(value=values)
def test_what_is_written_is_what_was_meant(value):
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", {"k\ud800": "\udfff"}])
def test_lone_surrogates_are_written_as_escapes(text):
    written = dumps(text)

    assert written.isascii()
    assert loads(written) == text


def test_what_python_can_read_is_read():
    assert loads(b"[1e400, -Infinity]") == [float("inf"), float("-inf")]
    assert loads(b"123456789012345678901234567890") == pytest.approx(1.2345678901234568e29)
    with pytest.raises(ValueError):
        loads(b"{")
