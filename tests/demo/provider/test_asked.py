"""Units of a prompt and what is made of them."""

import json

from proxy.demo.provider.asked import chain, pieces, seal, sse, tools_unit, unit, without_marks

MARK = {"cache_control": {"type": "ephemeral"}}


def test_cache_marks_neither_count_nor_change_a_unit():
    bare = unit({"role": "user", "content": [{"type": "text", "text": "a"}]}, ["a"])
    marked = unit({"role": "user", "content": [{"type": "text", "text": "a", **MARK}]}, ["a"])

    assert marked.rendered == bare.rendered
    assert (bare.marked, marked.marked) == (False, True)
    assert without_marks([{"a": [MARK]}]) == [{"a": [{}]}]


def test_tools_count_as_compact_json():
    (made,) = tools_unit([{"name": "look"}])

    assert made.texts == ('[{"name":"look"}]',)
    assert tools_unit([]) == ()


def test_a_key_stands_for_everything_before_it():
    one, two, other = unit("a", []), unit("b", []), unit("c", [])

    assert chain([one, two])[0] == chain([one, other])[0]
    assert chain([one, two])[1] != chain([other, two])[1]
    assert seal(chain([one])[0]) != seal(chain([two])[0])


def test_pieces_make_the_text_again():
    assert list(pieces("abcde", 2)) == ["ab", "cd", "e"]


def test_an_event_carries_json_on_one_line():
    assert sse({"a": 1}, "x") == b'event: x\ndata: {"a":1}\n\n'
    assert json.loads(sse({"a": 1}, end=b"\r\n").removeprefix(b"data: ")) == {"a": 1}
