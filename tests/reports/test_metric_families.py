from proxy.reports.metric_families import families
from proxy.reports.metrics import ASKED, Metrics
from proxy.tokens.usage import Usage
from tests.builders import a_turn


def test_every_family_has_our_name_and_says_what_it_is():
    metrics = Metrics(version="9", asked={name: lambda: 1.0 for name in ASKED})
    metrics.take(a_turn(usage=Usage(input_tokens=100)))
    found = list(families(metrics))

    assert len({family.name for family in found}) == len(found)
    assert all(family.name.startswith("pruning_proxy_") for family in found)
    assert all(family.documentation.endswith(".") for family in found)


def test_families_show_what_was_counted_until_they_are_asked_for():
    metrics = Metrics(version="9")
    asked = families(metrics)
    metrics.take(a_turn())

    assert next(asked).samples[0].value == 1
