from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from proxy.reports.metric_sums import Summed, lasting, snapshot
from proxy.reports.metrics import Metrics
from proxy.tokens.usage import Usage
from tests.builders import a_turn


def of_process(*turns, healthy=1, open_calls=0):
    asked = {"open_calls": lambda: open_calls, "store_healthy": lambda: healthy, "store_failures": lambda: 2}
    metrics = Metrics(version="9", asked=asked)
    for turn in turns:
        metrics.take(turn)
    return metrics


def page_of(*taken):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Summed(taken))
    return generate_latest(registry)


def samples_of(page):
    families = text_string_to_metric_families(page.decode())
    return {
        (sample.name.removeprefix("pruning_proxy_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


TURN = a_turn(
    usage=Usage(input_tokens=100, output_tokens=5), removed_tokens=7, overhead_ms=2.0, cost=1.0, cost_unpruned=3.0
)


def test_one_process_alone_looks_the_same_as_its_own_page():
    one = of_process(TURN, a_turn(model="other", new_edits={"clear": 2}))

    assert page_of(snapshot([one])) == one.page()


def test_counters_and_histograms_are_added_sample_by_sample():
    both = samples_of(page_of(snapshot([of_process(TURN, TURN)]), snapshot([of_process(TURN)])))
    whole = samples_of(of_process(TURN, TURN, TURN).page())
    whole["store_failures_total",] = 4.0

    assert both == whole


def test_what_only_one_process_has_seen_is_on_the_page():
    found = samples_of(page_of(snapshot([of_process(TURN)]), snapshot([of_process(a_turn(model="new"))])))

    assert found["calls_total", "m", "ok", "main", "openai"] == 1
    assert found["calls_total", "new", "ok", "main", "openai"] == 1


def test_gauges_say_what_is_true_of_all_together():
    one, two = of_process(TURN, healthy=1, open_calls=3), of_process(TURN, healthy=0, open_calls=4)
    found = samples_of(page_of(snapshot([one]), snapshot([two])))

    assert found["open_calls",] == 7
    assert found["store_healthy",] == 0
    assert found["build_info", "9"] == 1
    assert found["saved_dollars", "m", "openai"] == 4.0


def test_of_a_process_that_has_ended_only_what_was_counted_lasts():
    ended = lasting(snapshot([of_process(TURN, healthy=0, open_calls=3)]))
    found = samples_of(page_of(snapshot([of_process(TURN)]), ended))

    assert found["calls_total", "m", "ok", "main", "openai"] == 2
    assert found["saved_dollars", "m", "openai"] == 4.0
    assert (found["open_calls",], found["store_healthy",]) == (0, 1)


def test_what_is_no_snapshot_counts_for_nothing():
    known = snapshot([of_process(TURN)])

    assert page_of(known, b"", b"junk", known[:-3]) == page_of(known)
    assert lasting(b"junk") == lasting(b"")
