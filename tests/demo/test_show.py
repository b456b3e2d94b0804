"""`pruning-proxy demo`."""

import argparse
import itertools
import json
import re

import pytest

from proxy.demo import show
from proxy.demo.outcome import Outcome
from proxy.errors import SettingsError

CLEAN = Outcome(
    turns=10,
    refused_direct=0,
    refused_pruned=0,
    different_answers=0,
    input_direct=1000,
    input_pruned=800,
    saved_tokens=200,
    saved_tokens_percent=20.0,
    cached_direct_percent=90.0,
    cached_pruned_percent=80.0,
    dollars_direct=1.0,
    dollars_pruned=0.9,
    saved_dollars=0.1,
    saved_dollars_percent=10.0,
    anchored_turns=9,
    error_median_percent=0.1,
    error_p95_percent=0.2,
    error_max_percent=0.3,
    edits={"clear": 3},
    failed_open=0,
)


def changed(**fields):
    return Outcome(**{name: getattr(CLEAN, name) for name in CLEAN.__struct_fields__} | fields)


def options(*words):
    parser = argparse.ArgumentParser()
    show.add_flags(parser)
    return parser.parse_args(words)


def test_the_show_fits_80_columns_and_ends_well(capsys):
    assert show.run(options("--turns", "6")) == 0

    out, err = capsys.readouterr()
    assert err == ""
    assert "6 turns in" in out
    assert "estimate error on 5 anchored turns" in out
    assert max(map(len, out.splitlines()[2:])) <= 80
    assert "\x1b" not in out


def test_pruned_now_stands_where_an_edit_was_decided_and_only_there(capsys):
    """What the proxy learns moves its estimate of what is gone; that is no pruning."""
    assert show.run(options("--turns", "21")) == 0

    lines = capsys.readouterr().out.splitlines()
    said = [after.split()[0] for before, after in itertools.pairwise(lines) if before.startswith("     pruned now: ")]
    decided = [found[1] for line in lines if (found := re.match(r"  turn (\d+): ", line))]
    assert len(said) >= 4
    assert said == decided


def test_the_show_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "48")
    assert show.run(options("--turns", "9")) == 0

    lines = capsys.readouterr().out.splitlines()
    turns = [line for line in lines if re.match(r" +\d+ +[\d,]+ +[\d,]+ ", line)]
    assert len(turns) == 9
    assert all(line.endswith("%") for line in turns)
    assert any(re.fullmatch(r"input tokens: [\d,]+ direct, [\d,]+ through the", line.strip()) for line in lines)


def test_the_json_has_each_turn_and_the_outcome(capsys):
    assert show.run(options("--turns", "2", "--json", "--profile", "bold")) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["profile"], [turn["turn"] for turn in told["turns"]]) == ("bold", [1, 2])
    assert told["outcome"]["input_direct"] == sum(turn["input_direct"] for turn in told["turns"])


def test_a_session_of_ones_own_can_be_played(tmp_path, capsys):
    path = tmp_path / "mine.json"
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    path.write_text(json.dumps({"messages": messages}))

    assert show.run(options("--session", str(path))) == 0
    assert "Nothing was saved: nothing in this session was worth pruning" in " ".join(capsys.readouterr().out.split())


def test_a_file_that_is_no_session_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("{}")

    with pytest.raises(SettingsError, match=r"mine\.json: expected `messages`"):
        show.run(options("--session", str(path)))


@pytest.mark.parametrize("wrong", ["0", "-3", "many"])
def test_a_number_of_turns_is_one_or_more(wrong, capsys):
    with pytest.raises(SystemExit):
        options("--turns", wrong)

    assert "--turns" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "Saved 200 input tokens and $0.1000 of $1.0000."),
        ({"edits": {}, "saved_tokens": 0}, "Nothing was saved: nothing in this session was worth pruning"),
        ({"saved_dollars": -0.25}, "the cache breaks cost $0.2500 more than that brought"),
        ({"refused_direct": 4}, "4 turns would have been refused"),
    ],
)
def test_the_last_line_is_honest(fields, says):
    assert says in show.verdict(changed(**fields))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, ""),
        ({"refused_pruned": 2}, "2 of 10 turns were refused through the proxy"),
        ({"different_answers": 1}, "1 of 10 answers differ from the direct ones"),
        ({"failed_open": 3}, "a stage of the proxy failed in 3 of 10 turns"),
    ],
)
def test_what_went_wrong_is_one_clear_line(fields, says):
    assert show.trouble(changed(**fields)) == says
