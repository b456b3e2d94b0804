import msgspec
import pytest

from proxy.errors import SettingsError
from proxy.settings.detours import detour_of
from proxy.settings.load import effective, load, load_with_origins, setting_names
from proxy.settings.values import PRESETS, Settings

HOME = {"HOME": "/home/somebody"}


def env(**variables):
    return HOME | {f"PRUNING_PROXY__{name}": value for name, value in variables.items()}


def a_file(tmp_path, text):
    path = tmp_path / "pruning-proxy.toml"
    path.write_text(text)
    return path


def refused(*, config=None, flags=None, **variables):
    with pytest.raises(SettingsError) as caught:
        load(config, flags or {}, env(**variables))
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestOrder:
    def test_nothing_given_gives_the_defaults(self):
        settings = load(environ=HOME)

        assert settings.prune == msgspec.structs.replace(Settings().prune, **PRESETS["gentle"]["prune"])
        assert settings.compact == Settings().compact
        assert settings.upstreams == Settings().upstreams

    def test_the_process_environment_is_read_unless_another_is_given(self, monkeypatch):
        monkeypatch.setenv("PRUNING_PROXY__SERVER__PORT", "1234")

        assert load().server.port == 1234
        assert load(environ=HOME).server.port == 8787

    def test_the_file_wins_over_the_profile(self, tmp_path):
        path = a_file(tmp_path, 'profile = "bold"\n[prune]\nprotect_tokens = 5\n')
        settings = load(path, environ=HOME)

        assert settings.prune.protect_tokens == 5
        assert settings.arrive.collapse is True

    def test_the_environment_wins_over_the_file(self, tmp_path):
        path = a_file(tmp_path, "[server]\nport = 1\nmax_body_mb = 3\n")
        settings = load(path, environ=env(SERVER__PORT="2"))

        assert (settings.server.port, settings.server.max_body_mb) == (2, 3)

    def test_the_command_line_wins_over_the_environment(self, tmp_path):
        path = a_file(tmp_path, "[server]\nport = 1\n")
        settings = load(path, {("server", "port"): "3"}, env(SERVER__PORT="2"))

        assert settings.server.port == 3

    def test_a_profile_may_come_from_anywhere(self, tmp_path):
        path = a_file(tmp_path, 'profile = "gentle"\n')
        bold = load(path, environ=env(PROFILE="bold"))

        assert bold.prune.protect_tokens == PRESETS["bold"]["prune"]["protect_tokens"]
        assert bold.prune.policy == Settings().prune.policy

    def test_what_a_profile_says_of_pruning_is_for_the_priced_policy(self):
        seeds = load(environ=env(PRUNE__POLICY="always"))

        assert (seeds.prune.protect_tokens, seeds.prune.minimum_tokens) == (40_000, 20_000)

    def test_each_origin_is_known(self, tmp_path):
        path = a_file(tmp_path, "[server]\nport = 1\n")
        origins = load_with_origins(path, {("mode",): "off"}, env(PROFILE="bold", LOG__LEVEL="debug")).origins

        assert origins["server", "port"] == str(path)
        assert origins["mode",] == "command line"
        assert origins["log", "level"] == "environment variable PRUNING_PROXY__LOG__LEVEL"
        assert origins["arrive", "collapse"] == "profile bold"
        assert ("server", "host") not in origins

    def test_the_standard_variable_for_the_collector_counts_where_no_setting_is_written(self, tmp_path):
        standard = HOME | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://standard:4318"}
        path = a_file(tmp_path, '[log]\notlp_endpoint = ""\n')
        loaded = load_with_origins(environ=standard)

        assert loaded.settings.log.otlp_endpoint == "http://standard:4318"
        assert loaded.origins["log", "otlp_endpoint"] == "environment variable OTEL_EXPORTER_OTLP_ENDPOINT"
        assert load(path, environ=standard).log.otlp_endpoint == ""
        assert load(environ=HOME | {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}).log.otlp_endpoint == ""


class TestNamedSections:
    def test_a_built_in_upstream_keeps_what_is_not_written(self):
        upstream = load(environ=env(UPSTREAMS__OPENAI__TIMEOUT_S="30")).upstreams["openai"]

        assert (upstream.base_url, upstream.timeout_s) == ("https://api.openai.com", 30.0)

    def test_an_upstream_of_ones_own(self):
        settings = load(flags={("upstreams", "my.gateway", "base_url"): "http://10.0.0.1:9/v1"}, environ=HOME)

        assert settings.upstreams["my.gateway"].base_url == "http://10.0.0.1:9"
        assert "anthropic" in settings.upstreams

    def test_the_environment_finds_an_upstream_that_the_command_line_names(self):
        flags = {("upstreams", "my-gateway", "base_url"): "http://h"}
        settings = load(flags=flags, environ=env(UPSTREAMS__MY_GATEWAY__TIMEOUT_S="5"))

        assert settings.upstreams["my-gateway"].timeout_s == 5.0

    def test_a_model_pattern_from_file_and_environment_is_one(self, tmp_path):
        path = a_file(tmp_path, '[models."gpt-4.1*"]\nwindow = 5\nmax_output = 1\n')
        settings = load(path, environ=env(**{"MODELS__GPT_4_1*__WINDOW": "7"}))

        assert list(settings.models) == ["gpt-4.1*"]
        assert settings.model("openai", "gpt-4.1-mini").window == 7
        assert settings.model("openai", "gpt-4.1-mini").max_output == 1


class TestSecrets:
    def test_may_be_read_from_a_variable(self):
        variables = {"SERVER__REQUIRE_KEYS": "alice=env:ALICE,env:NAMELESS", "UPSTREAMS__OPENAI__API_KEY": "env:KEY"}
        settings = load(environ=env(**variables) | {"ALICE": "k1", "NAMELESS": "k2", "KEY": "sk-1"})

        assert settings.server.require_keys == ("alice=k1", "k2")
        assert settings.upstreams["openai"].api_key == "sk-1"

    @pytest.mark.parametrize("environ", [{}, {"TOKEN": ""}])
    def test_that_are_not_there_are_named(self, environ):
        with pytest.raises(SettingsError, match=r"server\.admin_token: the environment variable 'TOKEN' .* is not set"):
            load(environ=env(SERVER__ADMIN_TOKEN="env:TOKEN") | environ)

    def test_only_secrets_are_looked_up(self):
        assert load(environ=env(COMPACT__MODEL="env:PATH")).compact.model == "env:PATH"

    def test_are_never_quoted(self, tmp_path):
        path = a_file(tmp_path, "[server]\nadmin_token = 424242\n")

        assert "424242" not in refused(config=path)

    def test_are_masked_in_what_is_shown(self):
        settings = load(
            environ=env(SERVER__REQUIRE_KEYS="a=k1", UPSTREAMS__OPENAI__API_KEY="sk-1", STORE__URL="redis://:pw@h")
        )
        shown = effective(settings)

        assert shown["server"]["require_keys"] == ["a=****"]
        assert shown["upstreams"]["openai"]["api_key"] == "****"
        assert shown["store"]["url"] == "redis://****@h"


class TestWrong:
    @pytest.mark.parametrize(
        ("variable", "suggestion"),
        [
            ("PRUNE__PROTECT_TOKEN", "prune.protect_tokens"),
            ("PRUNNE__POLICY", "prune.policy"),
            ("SERVER__PROTECT_TOKENS", "prune.protect_tokens"),
            ("UPSTREAMS__OPENAI__TIMEOUT", "upstreams.openai.timeout_s"),
            ("MODELS__GPT__WINDOWS", "models.gpt.window"),
            ("PROFIL", "profile"),
        ],
    )
    def test_an_unknown_setting_brings_a_suggestion(self, variable, suggestion):
        text = refused(**{variable: "1"})

        assert text.startswith("unknown setting")
        assert f'did you mean "{suggestion}"?' in text
        assert f"PRUNING_PROXY__{variable}" in text

    def test_an_unknown_setting_without_a_like_says_where_to_look(self):
        assert "`pruning-proxy check --example` shows all settings" in refused(ZZZZ="1")

    def test_an_unknown_key_in_a_file_names_the_file(self, tmp_path):
        path = a_file(tmp_path, "[prune]\npolicies = 1\n")

        assert refused(config=path) == f'unknown setting "prune.policies" ({path}); did you mean "prune.policy"?'

    def test_a_model_pattern_whose_dots_nobody_quoted_is_explained(self, tmp_path):
        path = a_file(tmp_path, "[models.gpt-4.1]\nwindow = 5\n")

        assert refused(config=path).endswith('a name with dots wants quotes: [models."gpt-4.1"]')

    def test_a_wrong_value_says_what_to_write(self, tmp_path):
        path = a_file(tmp_path, '[prune]\nengage = "high"\n')

        assert refused(config=path) == f"prune.engage: expected a number from 0 to 1, got 'high' ({path})"

    @pytest.mark.parametrize("variable", ["PRUNE", "UPSTREAMS", "UPSTREAMS__OPENAI"])
    def test_a_section_is_not_a_setting(self, variable):
        assert "is a section of settings, not a setting" in refused(**{variable: "1"})

    def test_a_file_that_is_not_there_is_named(self, tmp_path):
        assert "nowhere.toml" in refused(config=tmp_path / "nowhere.toml")

    def test_settings_that_contradict_each_other_are_refused(self):
        assert "prune.release" in refused(PRUNE__ENGAGE="0.5")


class TestStorePlace:
    @pytest.mark.parametrize(
        ("environ", "url"),
        [
            ({}, "sqlite:////home/somebody/.local/state/pruning-proxy/state.db"),
            ({"XDG_STATE_HOME": "/state"}, "sqlite:////state/pruning-proxy/state.db"),
            # The XDG rule: a relative path is to be ignored.
            ({"XDG_STATE_HOME": "state"}, "sqlite:////home/somebody/.local/state/pruning-proxy/state.db"),
            # What somebody wrote is taken as written, but for "~".
            (
                {"PRUNING_PROXY__STORE__URL": "sqlite:///~/x.db", "XDG_STATE_HOME": "/state"},
                "sqlite:////home/somebody/x.db",
            ),
            ({"PRUNING_PROXY__STORE__URL": "sqlite:///x.db"}, "sqlite:///x.db"),
            ({"PRUNING_PROXY__STORE__URL": "redis://~/0"}, "redis://~/0"),
        ],
    )
    def test_follows_the_environment(self, environ, url):
        assert load(environ=HOME | environ).store.url == url


def test_all_settings_are_listed_once():
    names = setting_names()

    assert len(names) == len(set(names))
    assert {"profile", "mode", "server.port", "upstreams.NAME.base_url", "models.PATTERN.window"} <= set(names)


def test_every_listed_setting_can_be_set_by_a_variable():
    for name in setting_names():
        variable = name.replace(".", "__").replace("NAME", "GROQ").upper()
        # No type takes this, but text: then the setting was reached, too.
        try:
            load(environ=env(**{variable: "\x00"}))
        except SettingsError as error:
            said = str(error)
        else:
            said = ""

        assert not said.startswith("unknown setting"), name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("PRUNING_PROXY_MODE", "PRUNING_PROXY__MODE"),
        ("PRUNING_PROXY_PRUNE_MIN_CHARS", "PRUNING_PROXY__PRUNE__MIN_CHARS"),
    ],
)
def test_a_variable_with_too_few_underscores_is_not_overlooked(written, meant):
    with pytest.raises(SettingsError, match=f"{written} is no setting; did you mean {meant}"):
        load(environ={**HOME, written: "off"})


def test_variables_of_an_orchestrator_are_no_settings():
    assert load(environ={**HOME, "PRUNING_PROXY_SERVER_PORT": "tcp://10.0.0.1:80"}).server.port == 8787


class TestDetours:
    CORP = "http://me:secret@proxy.corp.example:3128"

    def test_what_the_environment_names_is_on_the_way_to_all_but_this_machine(self):
        upstreams = load(environ=HOME | {"HTTPS_PROXY": self.CORP, "HTTP_PROXY": self.CORP}).upstreams

        assert detour_of(upstreams["openai"].http_proxy) == self.CORP
        assert detour_of(upstreams["ollama"].http_proxy) == ""

    def test_a_setting_wins_over_it(self, tmp_path):
        path = a_file(tmp_path, '[upstreams.openai]\nhttp_proxy = ""\n[upstreams.groq]\nhttp_proxy = "other:1"\n')
        upstreams = load(path, environ=HOME | {"HTTPS_PROXY": self.CORP}).upstreams

        assert [detour_of(upstreams[name].http_proxy) for name in ("openai", "groq")] == ["", "http://other:1"]

    def test_its_credentials_are_not_shown(self):
        shown = effective(load(environ=HOME | {"HTTPS_PROXY": self.CORP}))["upstreams"]

        assert shown["openai"]["http_proxy"] == "http://****@proxy.corp.example:3128"
        assert shown["ollama"]["http_proxy"] == "auto"

    def test_what_is_none_is_refused_by_its_name(self):
        said = refused(UPSTREAMS__OPENAI__HTTP_PROXY="socks5://me:secret@h:1")

        assert said.startswith("upstreams.openai.http_proxy: expected")
        assert "secret" not in said
