import json

import pytest

from proxy.cli import main
from proxy.tokens.usage import Usage
from tests.builders import a_turn
from tests.server.test_inquiry import NOW, a_file


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with one call; gives the flags that name it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    turn = a_turn(
        session="abc",
        at=NOW,
        estimated=52_100,
        window=200_000,
        reserve=16_000,
        system_tokens=4_000,
        tools_tokens=8_000,
        usage=Usage(input_tokens=51_790),
        cost=1.0,
        cost_unpruned=3.0,
    )
    return ["--store", a_file(tmp_path, turn).store.url]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["context"], "Context usage: 52,100 / 200,000 tokens (26 %)"),
        (["context", "abc"], "Free space: 131,900 tokens (after 16,000 output reserve)"),
        (["accuracy", "--hours", "24"], "+0.60 %"),
        (["accuracy"], "not known yet"),
        (["savings"], "Saved: $2.00 net (+66.7 %)"),
        (["sessions", "--limit", "5"], "abc"),
    ],
)
def test_each_report_is_printed(store, capsys, command, said):
    assert main([*command, *store]) == 0

    printed = capsys.readouterr().out
    assert said in printed
    assert max(map(len, printed.splitlines())) <= 120


def test_where_there_is_no_terminal_a_row_is_a_line(tmp_path, monkeypatch, capsys):
    """For `grep` and its kin, also with a model's long name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    named = a_turn(
        session="abc", at=NOW, model="claude-sonnet-4-5-20250929", estimated=99, usage=Usage(input_tokens=100)
    )
    store = a_file(tmp_path, named).store.url

    assert main(["accuracy", "--store", store]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "claude-sonnet-4-5-20250929" in line)
    assert "-1.00 %" in row


def test_the_context_command_lists_edits_when_asked(store, capsys):
    assert main(["context", "--edits", *store]) == 0
    assert "session abc: nothing was taken out" in capsys.readouterr().out

    assert main(["context", "abc", "--edits", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out)["edits"] == []


@pytest.mark.parametrize(
    ("command", "field"), [("context", "rows"), ("accuracy", "rows"), ("savings", "total"), ("sessions", "sessions")]
)
def test_each_report_is_json_when_asked(store, capsys, command, field):
    assert main([command, "--json", *store]) == 0

    assert json.loads(capsys.readouterr().out)[field]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["context", "nobody"], "no calls of session 'nobody'"),
        (["accuracy", "--hours", "soon"], "--hours: expected a number of at least 0, got 'soon'"),
        (["accuracy", "--hours", "-1"], "--hours"),
        (["sessions", "--limit", "501"], "--limit: expected a number from 1 to 500"),
        (["sessions", "--limit", "0"], "--limit: expected a number from 1 to 500, got '0'"),
    ],
)
def test_what_is_wrong_is_one_line(store, capsys, arguments, said):
    assert main([*arguments, *store]) == 2

    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["accuracy", "savings", "sessions"])
def test_where_nothing_is_recorded_no_table_is_drawn_and_no_file_made(tmp_path, capsys, command):
    place = tmp_path / "typo" / "state.db"
    assert main([command, "--store", f"sqlite:///{place}"]) == 0

    printed = capsys.readouterr()
    assert printed.out == "no calls are recorded yet\n"
    assert printed.err == f"pruning-proxy: there is no store at {place} yet\n"
    assert main(["context", "--store", f"sqlite:///{place}"]) == 2
    assert capsys.readouterr().err == f"pruning-proxy: no calls are recorded yet: there is no store at {place} yet\n"
    assert not place.parent.exists()


@pytest.mark.parametrize("command", ["accuracy", "savings"])
def test_where_nothing_is_recorded_of_the_last_hours_that_is_said(tmp_path, capsys, command):
    flags = ["--store", a_file(tmp_path, a_turn(at=NOW - 9000)).store.url]
    assert main([command, "--hours", "1", *flags]) == 0

    assert capsys.readouterr().out == "no calls are recorded in that time\n"


def test_a_store_of_another_process_alone_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert main(["context", "--store", "memory://"]) == 2
    assert "ask it with --url" in capsys.readouterr().err
