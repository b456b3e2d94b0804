"""Recorded sessions and the files they come in."""

import gzip
import json

import pytest

from proxy.demo.sessions import load, read, shipped
from proxy.errors import SettingsError

MESSAGES = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c"},
    {"role": "assistant", "content": "d"},
]


def test_the_shipped_session_is_real_licensed_and_long():
    session = shipped()

    assert session.licence in ("MIT", "Apache-2.0")
    assert session.source
    assert not session.stitched
    assert sum(1 for _ in session.turns()) > 100


def test_a_turn_is_the_history_before_an_answer():
    session = read(json.dumps({"messages": MESSAGES}).encode(), "mine")

    assert session.name == "mine"
    assert [(len(history), answer["content"]) for history, answer in session.turns()] == [(1, "b"), (3, "d")]


def test_a_file_may_be_compressed(tmp_path):
    path = tmp_path / "talk.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"id": "x", "messages": MESSAGES, "tools": [{"a": 1}]}).encode()))
    session = load(path)

    assert (session.name, session.tools, len(session.messages)) == ("x", ({"a": 1},), 4)


@pytest.mark.parametrize(
    "raw",
    [
        b"not json",
        b"",
        b"\x1f\x8bbroken",
        gzip.compress(b"{}", mtime=0)[:-4],
        gzip.compress(b"[1, 2, 3]", mtime=0)[:10] + b"\xff" * 20,
        b"[]",
        b'{"messages": 1}',
        b'{"messages": ["a"]}',
        b'{"messages": [{"role": "user", "content": "a"}]}',
        b'{"messages": [{"role": "assistant", "content": "a"}]}',
        b'{"messages": [{"role": "user", "content": 5}, {"role": "assistant", "content": "a"}]}',
        b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": 5}]}',
        b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [1]}]}',
        b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "c"}]}]}',
        b'{"messages": [{"role": "user", "content": [1]}, {"role": "assistant", "content": "a"}]}',
        b'{"messages": [{"role": [], "content": "a"}, {"role": "assistant", "content": "a"}]}',
        b'{"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}]}',
    ],
)
def test_what_is_no_session_is_refused_with_its_name(raw):
    with pytest.raises(SettingsError, match=r"--session: mine\.json: expected"):
        read(raw, "mine.json")


def test_what_else_is_not_as_expected_is_left_out():
    session = read(json.dumps({"messages": MESSAGES, "source": "me", "tools": [1, {"a": 1}]}).encode(), "mine.json")

    assert (session.source, session.tools) == ("", ({"a": 1},))


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    with pytest.raises(SettingsError, match=r"--session: cannot read .*/none\.json: No such file or directory"):
        load(tmp_path / "none.json")
    with pytest.raises(SettingsError, match=r"--session: cannot read .*: Is a directory"):
        load(tmp_path)
