import errno
import io
import json
import re
import sys

import pytest
import structlog

from proxy.server.events import configure, fields_of, say_calls
from proxy.server.spoken import spoken
from proxy.tokens.usage import Usage
from tests.builders import a_turn


@pytest.fixture(autouse=True)
def _as_before():
    yield
    structlog.reset_defaults()


def test_r4_c1_fields_hold_estimate_actual_and_signed_error():
    said = fields_of(a_turn(estimated=5120, usage=Usage(input_tokens=5115, output_tokens=50)))

    assert (said["estimated"], said["actual"], said["error"], said["error_percent"]) == (5120, 5115, 5, 0.098)
    assert said["source"] == "provider"


@pytest.mark.parametrize("usage", [Usage(), Usage(input_tokens=0, output_tokens=3)])
def test_c6_no_actual_is_null_and_never_nought_percent(usage):
    said = fields_of(a_turn(usage=usage))

    assert said["actual"] is said["error"] is said["error_percent"] is None


def test_json_is_one_object_a_line_on_standard_error(capsys):
    configure(form="json", level="info")
    structlog.get_logger("x").info("something", number=1, ratio=0.5)
    written = capsys.readouterr()
    entry = json.loads(written.err)

    assert written.out == ""
    assert (entry["event"], entry["level"], entry["number"]) == ("something", "info", 1)
    assert entry["timestamp"].endswith("Z")


def test_lines_for_people_have_no_colours(capsys):
    configure(form="console", level="info")
    structlog.get_logger("x").info("something", number=1)

    written = capsys.readouterr().err
    assert "something" in written
    assert "number=1" in written
    assert "\x1b" not in written


def test_what_is_below_the_level_is_not_written(capsys):
    configure(form="json", level="warning")
    structlog.get_logger("x").info("quiet")
    structlog.get_logger("x").warning("loud")

    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["loud"]


@pytest.mark.parametrize(
    "turn",
    [
        a_turn(),
        a_turn(
            model='gäbe "es"\x7f\x00\u2028',
            estimated=123_456,
            usage=Usage(input_tokens=100_001, output_tokens=2**53),
            edits={"clear": 2},
            error_code="overloaded",
            overhead_ms=0.25,
            exact_ms=0.001,
            failed_open="plan",
        ),
    ],
)
def test_a_call_is_logged_as_structlog_would_log_it(capsys, turn):
    configure(form="json", level="info")
    say_calls([turn])
    structlog.get_logger("x").info("context_estimate", **fields_of(turn))

    own, theirs, end = capsys.readouterr().err.split("\n")
    own_said, theirs_said = (line.partition('"timestamp":"')[0] for line in (own, theirs))
    assert own_said == theirs_said
    assert json.loads(own)["timestamp"].endswith("Z")
    assert end == ""


class Full(io.StringIO):
    """A log on a full disk."""

    def write(self, _text):
        raise OSError(errno.ENOSPC, "No space left on device")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("broken", [Full(), closed(), None])
def test_a_log_that_cannot_be_written_harms_nothing(monkeypatch, form, broken):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", broken)
        configure(form=form, level="info")
        structlog.get_logger("x").warning("something")
        say_calls([a_turn()])


def test_calls_that_ended_together_have_a_line_each(capsys):
    configure(form="json", level="info")
    say_calls([a_turn(turn=1), a_turn(turn=2)])
    assert [json.loads(line)["turn"] for line in capsys.readouterr().err.splitlines()] == [1, 2]


def test_calls_are_quiet_below_the_level(capsys):
    configure(form="json", level="info")
    configure(form="json", level="warning")
    say_calls([a_turn()])
    assert capsys.readouterr().err == ""


def test_calls_are_a_line_of_what_people_look_for(capsys):
    configure(form="console", level="info")
    say_calls([a_turn()])
    structlog.get_logger("proxy").warning("store_lost", error="OSError", hint=None)

    call, other = capsys.readouterr().err.splitlines()
    assert spoken(fields_of(a_turn())) in call
    assert "context_estimate" not in call
    assert "=" not in call
    assert re.match(r"\d\d:\d\d:\d\d \[info +\] ", call)
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[warning +\] store_lost +error=OSError", other)


@pytest.mark.parametrize(("terminal", "for_people"), [(True, True), (False, False)])
def test_a_terminal_gets_lines_for_people_and_everything_else_json(monkeypatch, terminal, for_people):
    written = io.StringIO()
    written.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", written)
    configure(form="auto", level="info")
    say_calls([a_turn()])

    assert written.getvalue().startswith("{") != for_people
