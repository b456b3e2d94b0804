import argparse
import gzip
import json
from pathlib import Path

import pytest

from proxy.errors import ProxyError
from proxy.server.playback import add_flags, conversations, replayed, run

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


def test_a_folder_is_searched(transcript, tmp_path, capsys):
    assert run(options(tmp_path, "--json")) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_a_file_that_holds_no_conversation_is_said_to_hold_none(tmp_path):
    path = tmp_path / "no.json"
    path.write_text('{"a": 1}')

    with pytest.raises(ProxyError, match="no conversation found"):
        run(options(path))


def test_a_profile_never_reports_more_calls_than_there_were(transcript):
    ((name, conversation),) = conversations(transcript)

    assert replayed(name, conversation, "bold").calls == 11
