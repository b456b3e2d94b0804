from dataclasses import fields

import pytest

from proxy.compaction.policy import CompactPolicy
from proxy.exchange.policy import Policy
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.server.policies import Policies
from proxy.settings import values
from proxy.settings.values import Compact, Estimate, ModelSettings, Prune, Settings, Upstream


def known(model="gpt-4o", *, upstream="openai", mode="prune", window=None, **sections):
    return Policies(Settings(**sections)).known(upstream, model, mode, window)


@pytest.mark.parametrize(
    ("configured", "learned", "expected"),
    [
        (50_000, 8_000, 50_000),  # The user knows best,
        (None, 8_000, 8_000),  # then what the provider itself has said,
        (None, None, 128_000),  # then the table.
    ],
)
def test_window_of_the_configuration_wins_over_the_learned_and_the_table(configured, learned, expected):
    models = {"gpt-4o": ModelSettings(window=configured)}

    assert known(window=learned, models=models).policy.window == expected


def test_a_limit_of_the_input_alone_reaches_the_policy_unless_the_window_is_configured():
    configured = {"*": ModelSettings(window=300_000)}

    assert (known("gpt-5").policy.window, known("gpt-5").policy.max_input) == (400_000, 272_000)
    assert known("gpt-5", models=configured).policy.max_input is None
    assert known("gpt-4o").policy.max_input is None


def test_nobody_knows_the_window_of_an_unknown_model():
    assert known("mystery").policy.window is None


def test_settings_reach_the_policies():
    policy = known(prune=Prune(policy="always", min_chars=7), compact=Compact(trigger="off"), mode="observe").policy

    assert (policy.prune.policy, policy.prune.min_chars) == ("always", 7)
    assert policy.compact.trigger == "off"
    assert policy.mode == "observe"


@pytest.mark.parametrize(
    ("section", "policy"),
    [(values.Arrive, ArrivePolicy), (values.Compact, CompactPolicy)],
)
def test_every_key_of_a_section_has_its_field(section, policy):
    assert {field.name for field in fields(policy)} == set(section.__struct_fields__)


def test_defaults_of_settings_and_policies_agree():
    defaults = values.Prune()
    shared = [field.name for field in fields(PrunePolicy) if field.name in defaults.__struct_fields__]

    assert len(shared) > 10
    assert {name: getattr(defaults, name) for name in shared} == {name: getattr(PrunePolicy(), name) for name in shared}


def test_a_model_without_a_prompt_cache_has_no_prices():
    cached = known(models={"*": ModelSettings(cache_read_ratio=0.1, cache_write_ratio=1.25, cache_ttl_s=60.0)})
    uncached = known(models={"*": ModelSettings(cache_read_ratio=1.0)})

    assert (cached.policy.prices.read, cached.policy.prices.write, cached.policy.cache_ttl_s) == (0.1, 1.25, 60.0)
    assert uncached.policy.prices is None


def test_a_foreign_tokenizer_is_doubted():
    assert known("gpt-4o").policy.doubt == 0.0
    assert known("claude-sonnet-4-5", upstream="anthropic").policy.doubt > 0


def test_the_models_own_tokenizer_wins_over_the_general_one():
    general = known(estimate=Estimate(tokenizer="cl100k_base"))
    own = known(estimate=Estimate(tokenizer="cl100k_base"), models={"gpt-4o": ModelSettings(tokenizer="o200k_base")})

    assert (general.encoding, own.encoding) == ("cl100k_base", "o200k_base")


@pytest.mark.parametrize("asks", [True, False])
def test_usage_is_asked_for_as_the_upstream_says(asks):
    upstreams = {"openai": Upstream(base_url="http://127.0.0.1:1", ask_usage=asks)}

    assert known(upstreams=upstreams).policy.ask_usage is asks
    assert not known(upstream="unknown", upstreams=upstreams).policy.ask_usage


def test_cache_breakpoints_are_set_only_where_the_upstream_says_so():
    upstreams = {"anthropic": Upstream(base_url="http://127.0.0.1:1", auto_cache=True)}

    assert known(upstream="anthropic", upstreams=upstreams).policy.auto_cache
    assert not known(upstream="anthropic").policy.auto_cache
    assert not known(upstream="unknown", upstreams=upstreams).policy.auto_cache


def test_the_same_question_is_answered_once():
    policies = Policies(Settings())

    assert policies.known("openai", "m", "prune", None) is policies.known("openai", "m", "prune", None)
    assert isinstance(policies.known("openai", "m", "off", None).policy, Policy)
