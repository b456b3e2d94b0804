"""The predictions are within their targets on every third recorded session, in each wire format; no limits of time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.counting import Counted
from tests.bench.estimates import run
from tests.bench.estimates_targets import counted_row, exit_code, shown, verdicts
from tests.bench.speakers import SPEAKERS

SCRIPT = Path(__file__).with_name("estimates.py")
FAST = Counted(encoding="e", text="recorded sessions", megabytes=2.0, seconds=0.06, longest_ms=1.0)
BAD = Counted(encoding="e", text="emoji", megabytes=5.0, seconds=0.6, longest_ms=3.0)


def bench(*arguments):
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def a_row(kind="known", **figures):
    figures = dict.fromkeys(("total_median", "total_p95", "growth_median", "first_median"), 0.0) | figures
    others = dict.fromkeys(("total_max", "growth_p95", "early_p95", "early_max", "inside_range"), 1.0)
    return {"provider": "p", "kind": kind, "format": "chat", "calls": 5, "first_calls": 5, **others, **figures}


def rows_with(**figures):
    return [a_row("known", **figures), a_row("unknown"), a_row("recorded"), counted_row(FAST), counted_row(BAD)]


@pytest.mark.slow
@pytest.mark.parametrize("form", SPEAKERS)
def test_predictions_are_within_their_targets(form):
    rows = run(forms=[form], every=3)
    found = [one for one in verdicts(rows) if one.target.kind in ("known", "unknown")]

    assert len(found) == 8
    assert [one for one in found if one.word != "met"] == []
    assert all(row["calls"] > 500 and row["first_calls"] >= 15 for row in rows if row["kind"] != "recorded")
    early = {row["provider"]: row["early_p95"] for row in rows}
    assert early["o200k, as we count"] == 0
    assert early["o200k, 7 more a message"] < 1.5
    assert early["o200k, 3 fewer a message"] < 1
    assert early["o200k, off by up to 1 %"] < 2.5


@pytest.mark.slow
def test_against_what_real_providers_reported_the_median_is_a_fiftieth_of_a_percent():
    (row,) = [row for row in run(forms=["chat"], every=3) if row["kind"] == "recorded"]

    assert row["calls"] > 200
    assert row["total_median"] <= 0.02


def test_each_target_stands_beside_the_worst_figure_of_its_rows():
    rows = [*rows_with(total_median=0.01), a_row("known", total_median=0.04) | {"provider": "q"}]
    found = verdicts(rows)

    assert (found[0].worst, found[0].where, found[0].word) == (0.04, "q, chat", "met")
    assert exit_code(found) == 0
    assert [one.word for one in found] == ["met"] * len(found)


def test_a_figure_over_its_target_is_marked_and_fails():
    rows = rows_with(first_median=1.5)
    found = verdicts(rows)
    lines = list(shown(rows, found))

    assert exit_code(found) == 1
    assert sum("✗" in line for line in lines) == 1
    (line,) = [line for line in lines if "not met" in line]
    assert "first_median" in line
    assert "1.500" in line
    assert "|▶" in line


def test_what_has_no_row_is_not_measured_rather_than_met():
    found = verdicts([row for row in rows_with() if row["kind"] != "recorded"])

    assert [one.target.figure for one in found if one.word == "not measured"] == ["total_median", "total_p95"]
    assert exit_code(found) == 2
    assert sum("not measured" in line for line in shown([], found)) == 2


def test_without_sessions_the_benchmark_says_that_it_measured_nothing():
    done = bench("--sessions", "no such session")

    assert done.returncode == 2
    assert "nothing measured" in done.stderr
    assert done.stdout == ""


def test_its_figures_are_there_for_machines():
    done = bench("--json", "--no-counting", "--sessions", "tau-retail-0*", "--formats", "chat")
    told = json.loads(done.stdout)

    assert done.returncode == 2
    assert {row["provider"] for row in told["rows"]} >= {"cl100k", "o200k, as we count"}
    unmeasured = {one["kind"] for one in told["targets"] if one["verdict"] == "not measured"}
    assert unmeasured >= {"recorded", "real text", "worst text"}
