import argparse
import gzip
import json
from pathlib import Path

import pytest

from proxy.errors import ProxyError
from proxy.exchange.transcripts import conversations
from proxy.pruning.situation import Prices
from proxy.server import playback
from proxy.server.playback import add_flags, replayed, run
from proxy.tokens.windows import Limits

SESSIONS = Path(__file__).parents[1] / "data" / "trajectories"


@pytest.fixture
def transcript(tmp_path):
    session = json.loads(gzip.decompress((SESSIONS / "intercode-ctf-13.json.gz").read_bytes()))
    path = tmp_path / "ctf.json"
    path.write_text(json.dumps({"messages": session["messages"]}))
    return path


def options(*arguments):
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return parser.parse_args([str(argument) for argument in arguments])


def test_a_list_of_messages_is_replayed_under_each_profile(transcript, capsys):
    assert run(options(transcript)) == 0

    text = capsys.readouterr().out
    assert "gentle" in text
    assert "bold" in text
    assert "ctf" in text


def test_json_tells_calls_tokens_and_money(transcript, capsys):
    assert run(options(transcript, "--profile", "gentle", "--model", "claude-sonnet-4-5", "--json")) == 0

    (row,) = json.loads(capsys.readouterr().out)
    assert (row["profile"], row["model"], row["calls"]) == ("gentle", "claude-sonnet-4-5", 11)
    assert 0 < row["sent_tokens"] < row["direct_tokens"]
    assert row["cost"] <= row["direct_cost"] * 1.01
    assert row["cheaper"] == pytest.approx(1 - row["cost"] / row["direct_cost"])
    assert row["regret"] == pytest.approx(row["regrets"] / 11)
    assert (row["direct_over"], row["sent_over"]) == (0, 0)


def test_calls_that_are_longer_than_the_models_window_are_counted(transcript, capsys):
    assert run(options(transcript, "--profile", "gentle", "--model", "gpt-4", "--json")) == 0

    (row,) = json.loads(capsys.readouterr().out)
    assert 0 == row["sent_over"] < row["direct_over"] < row["calls"]


def test_a_limit_of_the_input_alone_counts_as_the_window_does(transcript, monkeypatch, capsys):
    limited = Limits(window=400_000, max_output=16_000, max_input=8_192)
    monkeypatch.setattr(playback, "limits_for", lambda model: limited)
    assert run(options(transcript, "--profile", "gentle", "--model", "gpt-5", "--json")) == 0

    (row,) = json.loads(capsys.readouterr().out)
    assert 0 == row["sent_over"] < row["direct_over"] < row["calls"]


def test_folders_are_searched_to_the_bottom_for_plain_and_packed_files(transcript, tmp_path, capsys):
    deep = tmp_path / "projects" / "valve"
    deep.mkdir(parents=True)
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    (deep / "b.jsonl.gz").write_bytes(gzip.compress(body.encode()))
    (deep / "a.json.gz").write_bytes(gzip.compress(body.encode()))
    (deep / "c.jsonl").write_text(f"{body}\n{body.replace('hi', 'ho')}")
    (deep / "notes.txt").write_text("no transcript")
    (deep / "package.json").write_text('{"name": "valve"}')

    assert run(options(tmp_path, "--profile", "gentle", "--json")) == 0

    said = capsys.readouterr()
    names = [row["name"] for row in json.loads(said.out)]
    assert names == ["ctf", "projects/valve/a", "projects/valve/b", "projects/valve/c#1", "projects/valve/c#2"]
    assert said.err == "pruning-proxy: 1 of 5 files hold no conversation that replay understands\n"


def test_files_that_cannot_be_read_are_named_and_the_others_replayed(transcript, tmp_path, capsys):
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(transcript.read_bytes())[:-20])
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))
    (tmp_path / "odd.json").write_text('{"messages": [1, null, {"role": 7, "content": {"a": []}}, "x"]}')
    given = [tmp_path / name for name in ("missing.json", "cut.json.gz", "binary.json", "odd.json", "ctf.json")]

    assert run(options(*given, "--profile", "gentle", "--json")) == 0

    said = capsys.readouterr()
    assert "ctf" in [row["name"] for row in json.loads(said.out)]
    errors = said.err.splitlines()
    assert errors[0] == f"pruning-proxy: {given[0]}: cannot be read: No such file or directory"
    assert errors[1] == f"pruning-proxy: {given[1]}: cannot be replayed (EOFError)"
    assert errors[2] == f"pruning-proxy: {given[2]}: no conversation in it that replay understands"


def test_an_error_of_ours_at_one_file_does_not_end_the_others(transcript, tmp_path, monkeypatch, capsys):
    (tmp_path / "other.json").write_text(transcript.read_text())
    asked = []

    def trips_once(*given):
        asked.append(given)
        if len(asked) == 1:
            raise KeyError("ours")
        return replayed(*given)

    monkeypatch.setattr(playback, "replayed", trips_once)

    assert run(options(tmp_path, "--profile", "gentle", "--json")) == 0
    said = capsys.readouterr()
    assert [row["name"] for row in json.loads(said.out)] == ["other"]
    assert said.err == f"pruning-proxy: {transcript}: cannot be replayed (KeyError)\n"


def test_on_a_terminal_the_progress_is_that_of_all_files(transcript, tmp_path, monkeypatch, capsys):
    (tmp_path / "other.json").write_text(transcript.read_text())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    assert run(options(tmp_path, "--profile", "gentle", "--json")) == 0

    said = capsys.readouterr().err
    assert "2 of 2 files, 22 turns" in said
    assert "left:" in said


def test_a_file_that_holds_no_conversation_is_said_to_hold_none(tmp_path):
    path = tmp_path / "no.json"
    path.write_text('{"a": 1}')

    with pytest.raises(ProxyError, match="no conversation found"):
        run(options(path))


def test_a_profile_never_reports_more_calls_than_there_were(transcript):
    (conversation,) = conversations(transcript.read_bytes())

    assert replayed("ctf", conversation, "bold").calls == 11


def short_talk(model):
    """An agent's few calls, which hardly reach the 1,024 tokens that some caches want, and never 4,096."""
    messages = []
    for number in range(6):
        call = {"name": "bash", "arguments": json.dumps({"command": f"run {number}"})}
        messages += [
            {"role": "user", "content": f"do {number}"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} value " * 40},
        ]
    messages.append({"role": "assistant", "content": "done"})
    (conversation,) = conversations(json.dumps({"model": model, "messages": messages}).encode())
    return conversation


def test_what_is_too_short_for_a_models_cache_is_paid_in_full():
    of_4096 = replayed("short", short_talk("claude-opus-4-5"), "gentle")
    of_64 = replayed("short", short_talk("deepseek-chat"), "gentle")

    assert of_4096.direct_cost == of_4096.direct_tokens
    assert of_64.direct_cost < of_64.direct_tokens / 2


def test_what_a_cache_takes_is_not_pruned_below_its_minimum(monkeypatch):
    kept = replayed("short", short_talk("gpt-4o"), "bold")
    monkeypatch.setattr(playback, "prices_of", lambda habit: Prices(read=habit.read_ratio, write=habit.write_ratio))
    without_minimum = replayed("short", short_talk("gpt-4o"), "bold")

    assert kept.breaks < without_minimum.breaks
