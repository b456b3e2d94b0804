import msgspec
import pytest

from proxy.compaction.policy import PRESETS as COMPACT
from proxy.pruning.policy import PRESETS as MEASURED
from proxy.settings.values import PRESETS, UPSTREAMS, ModelSettings, Prune, Settings, Upstream


def test_settings_never_change():
    with pytest.raises(AttributeError):
        Settings().mode = "off"


def test_everything_has_a_default():
    settings = Settings()

    assert (settings.profile, settings.mode) == ("gentle", "prune")
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8787)
    assert (settings.prune.policy, settings.prune.protect_tokens, settings.prune.minimum_tokens) == (
        "priced",
        40_000,
        20_000,
    )
    assert settings.upstreams["anthropic"] == Upstream(base_url="https://api.anthropic.com")


def test_the_text_form_of_settings_shows_no_secret():
    settings = Settings(upstreams={"openai": Upstream(base_url="https://h", api_key="sk-very-secret")})

    assert "sk-very-secret" not in repr(settings)
    assert "api_key='****'" in repr(settings)


def test_public_base_urls_end_before_the_version():
    for name, upstream in UPSTREAMS.items():
        assert upstream.base_url.startswith("http") or name == "azure"
        assert not upstream.base_url.endswith(("/", "/v1", "/v1beta"))


def test_presets_name_settings_that_exist():
    for sections in PRESETS.values():
        for section, keys in sections.items():
            part = getattr(Settings(), section)
            assert msgspec.structs.replace(part, **keys) != part


@pytest.mark.parametrize("profile", PRESETS)
def test_presets_are_the_values_that_were_measured(profile):
    arrive, prune = MEASURED[profile]
    for section, policy in (("arrive", arrive), ("prune", prune), ("compact", COMPACT[profile])):
        for key, value in PRESETS[profile].get(section, {}).items():
            assert getattr(policy, key) == value
    assert PRESETS[profile]["prune"].keys() == {"protect_tokens", "minimum_tokens", "keep_share"}


def test_pressure_ends_below_where_it_begins():
    assert Prune().release < Prune().engage


class TestModel:
    def test_is_unknown_where_nothing_matches(self):
        assert Settings().model("openai", "gpt-4.1") == ModelSettings()

    def test_of_several_patterns_the_most_specific_one_that_has_the_key_wins(self):
        settings = Settings(
            models={
                "gpt-4.1": ModelSettings(window=3),
                "gpt-*": ModelSettings(window=1, max_output=10),
                "gpt-4*": ModelSettings(window=2, cache_ttl_s=60),
            }
        )

        assert settings.model("openai", "gpt-4.1") == ModelSettings(window=3, max_output=10, cache_ttl_s=60)
        assert settings.model("openai", "gpt-4o") == ModelSettings(window=2, max_output=10, cache_ttl_s=60)

    def test_letter_case_does_not_count(self):
        settings = Settings(models={"Qwen/*": ModelSettings(window=1)})

        assert settings.model("vllm", "qwen/QwQ").window == 1

    def test_a_pattern_may_name_the_upstream(self):
        settings = Settings(models={"ollama/llama*": ModelSettings(window=4096)})

        assert settings.model("ollama", "llama3").window == 4096
        assert settings.model("groq", "llama3").window is None

    def test_a_value_of_false_or_zero_is_known(self):
        settings = Settings(
            models={
                "*": ModelSettings(must_pass_back_reasoning=True, cache_read_ratio=0.5),
                "m": ModelSettings(must_pass_back_reasoning=False, cache_read_ratio=0.0),
            }
        )

        assert settings.model("openai", "m") == ModelSettings(must_pass_back_reasoning=False, cache_read_ratio=0.0)
