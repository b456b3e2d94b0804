import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.reports.metrics import ASKED, CONTENT_TYPE, MOST_MODELS, Metrics
from proxy.tokens.usage import Usage
from tests.builders import a_turn

ROOT = Path(__file__).parent.parent.parent
ALL = {name: lambda: 1.0 for name in ASKED}


def metrics_of(*turns, **asked):
    metrics = Metrics(version="1.2.3", asked=asked)
    for turn in turns:
        metrics.take(turn)
    return metrics


def samples_of(metrics):
    """Sample → value; labels in the order of their names."""
    return {
        (
            sample.name.removeprefix("pruning_proxy_"),
            *(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
    }


def test_calls_are_counted_by_purpose_and_outcome():
    found = samples_of(metrics_of(a_turn(), a_turn(), a_turn(outcome="error"), a_turn(purpose="summary")))

    assert found["calls_total", "m", "ok", "main", "openai"] == 2
    assert found["calls_total", "m", "error", "main", "openai"] == 1
    assert found["calls_total", "m", "ok", "summary", "openai"] == 1


def test_tokens_are_those_that_were_reported():
    usage = Usage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=30, output_tokens=9, reasoning_tokens=4)
    refused = a_turn(outcome="error", status=429, removed_tokens=100, would_remove_tokens=100)
    found = samples_of(
        metrics_of(a_turn(usage=usage, removed_tokens=7), a_turn(removed_tokens=1, would_remove_tokens=5), refused)
    )

    kinds = {key[2]: value for key, value in found.items() if key[0] == "tokens_total"}
    assert kinds == {"input": 100, "cache_read": 60, "cache_write": 30, "output": 9, "reasoning": 4}
    assert found["removed_tokens_total", "m", "openai"] == 8
    assert found["would_remove_tokens_total", "m", "openai"] == 5


def test_money_saved_is_net_and_may_be_negative():
    turns = [a_turn(cost=1.0, cost_unpruned=1.5), a_turn(cost=0.5), a_turn(purpose="summary", cost=2.0), a_turn()]
    found = samples_of(metrics_of(*turns))

    assert found["cost_dollars_total", "m", "openai"] == 1.5
    assert found["cost_unpruned_dollars_total", "m", "openai"] == 2.0
    assert found["summary_cost_dollars_total", "m", "openai"] == 2.0
    assert found["saved_dollars", "m", "openai"] == -1.5


def test_errors_of_estimates_are_a_signed_histogram():
    def measured(estimated, **more):
        return a_turn(estimated=estimated, usage=Usage(input_tokens=100), **more)

    found = samples_of(
        metrics_of(measured(97), measured(100), measured(300), measured(97, basis="estimated"), a_turn())
    )

    def at(bound, basis="anchored"):
        return found["estimate_error_percent_bucket", basis, bound, "m", "openai"]

    assert (at("-5.0"), at("-2.0"), at("-0.1"), at("0.1"), at("50.0"), at("+Inf")) == (0, 1, 1, 2, 2, 3)
    assert at("+Inf", "estimated") == 1
    # The sum of signed errors is no counter, so the format has none.
    assert not [key for key in found if key[0] == "estimate_error_percent_sum"]


def test_times_are_in_seconds():
    found = samples_of(metrics_of(a_turn(overhead_ms=0.3, upstream_ms=1_500.0), a_turn(overhead_ms=2.0)))

    assert found["overhead_seconds_sum", "m", "openai"] == pytest.approx(0.0023)
    assert found["overhead_seconds_bucket", "0.0005", "m", "openai"] == 1
    # No head came in the other call.
    assert found["upstream_seconds_count", "m", "openai"] == 1
    assert found["upstream_seconds_sum", "m", "openai"] == 1.5


def test_decisions_reasons_and_failures_are_counted_by_name():
    metrics = metrics_of(
        a_turn(new_edits={"clear": 3, "cap": 1}, skipped="not_worth_it"), a_turn(new_edits={"clear": 1})
    )
    metrics.failed("decide")
    found = samples_of(metrics)

    assert found["decisions_total", "clear"] == 4
    assert found["decisions_total", "cap"] == 1
    assert found["skipped_total", "not_worth_it"] == 1
    assert found["failed_open_total", "decide"] == 1


def test_what_is_asked_for_is_asked_when_the_page_is_made():
    values = [3.0]
    metrics = metrics_of(open_calls=lambda: values[0], store_failures=lambda: 2.0)
    assert samples_of(metrics)["open_calls",] == 3

    values[0] = 5.0
    assert samples_of(metrics)["open_calls",] == 5
    assert samples_of(metrics)["store_failures_total",] == 2


def test_the_version_is_a_label():
    assert samples_of(metrics_of())["build_info", "1.2.3"] == 1


def test_after_so_many_models_the_others_count_together():
    """A request names its model: nobody may fill our memory by inventing names."""
    metrics = metrics_of(*(a_turn(model=f"m{number}") for number in range(MOST_MODELS + 50)))
    calls = {key: value for key, value in samples_of(metrics).items() if key[0] == "calls_total"}

    assert len(calls) == MOST_MODELS + 1
    assert calls["calls_total", "other", "ok", "main", "other"] == 50
    assert sum(calls.values()) == MOST_MODELS + 50


def test_names_of_strangers_cannot_break_the_page():
    found = samples_of(metrics_of(a_turn(model='a"b\\c\nd')))

    assert found["calls_total", 'a"b\\c\nd', "ok", "main", "openai"] == 1


def test_the_page_is_prometheus_text():
    assert metrics_of(a_turn()).page().startswith(b"# HELP pruning_proxy_calls_total ")
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def every_name():
    metrics = metrics_of(a_turn(new_edits={"clear": 1}, skipped="x", usage=Usage(input_tokens=100)), **ALL)
    metrics.failed("settle")
    names = set()
    for family in text_string_to_metric_families(metrics.page().decode()):
        names.add(family.name + ("_total" if family.type == "counter" else ""))
    return names


def test_names_follow_the_conventions():
    for name in every_name():
        assert re.fullmatch(r"pruning_proxy_[a-z_]+", name)
        assert not re.search(r"_(ms|seconds_total|millis)", name)


def test_the_readme_has_each_metric():
    readme = (ROOT / "README.md").read_text("utf-8").partition("\n## Metrics\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"`(pruning_proxy_\w+)`", readme)) == every_name()


@pytest.mark.parametrize("name", ["grafana.json", "prometheus-alerts.yaml"])
def test_dashboard_and_alerts_ask_only_for_metrics_that_there_are(name):
    text = (ROOT / "config" / name).read_text("utf-8")
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"pruning_proxy_\w+", text)}

    assert asked
    assert asked <= every_name()


def test_the_dashboard_shows_what_only_observing_would_have_removed():
    board = json.loads((ROOT / "config" / "grafana.json").read_text("utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]

    assert any("pruning_proxy_would_remove_tokens_total" in query for query in asked)
