import pytest

from proxy.errors import SettingsError
from proxy.settings.sources import dotted, from_environment, from_file, from_flags, from_standards


def written(givens):
    return {given.where: given.value for given in givens}


class TestFile:
    def test_becomes_one_value_a_key(self, tmp_path):
        path = tmp_path / "c.toml"
        path.write_text(
            'mode = "off"\n[server]\nport = 1\n[upstreams.a]\nbase_url = "u"\n[models."gpt-4.1*"]\nwindow = 5\n'
        )

        assert written(from_file(path)) == {
            ("mode",): "off",
            ("server", "port"): 1,
            ("upstreams", "a", "base_url"): "u",
            ("models", "gpt-4.1*", "window"): 5,
        }
        assert {given.origin for given in from_file(path)} == {str(path)}

    def test_a_table_too_deep_is_kept_whole_for_the_error(self, tmp_path):
        path = tmp_path / "c.toml"
        path.write_text("[server.port]\nnumber = 1\n")

        assert written(from_file(path)) == {("server", "port"): {"number": 1}}

    def test_a_byte_order_mark_does_no_harm(self, tmp_path):
        path = tmp_path / "c.toml"
        path.write_bytes(b'\xef\xbb\xbfmode = "off"\n')

        assert written(from_file(path)) == {("mode",): "off"}

    def test_that_is_missing_is_named(self, tmp_path):
        with pytest.raises(SettingsError, match=r"cannot read the configuration file .*nowhere\.toml: No such file"):
            from_file(tmp_path / "nowhere.toml")

    @pytest.mark.parametrize("content", [b"mode = off\n", b'mode = "\xff"\n', b"a = 1\na = 2\n"])
    def test_that_is_not_toml_is_named(self, tmp_path, content):
        path = tmp_path / "c.toml"
        path.write_bytes(content)

        with pytest.raises(SettingsError, match=r"c\.toml is not TOML") as caught:
            from_file(path)

        assert "codec" not in str(caught.value)


class TestEnvironment:
    KNOWN = (("upstreams", "openai"), ("upstreams", "my-gate.way"), ("models", "gpt-4.1*", "window"))

    def where(self, variable):
        (given,) = from_environment({variable: "v"}, self.KNOWN)
        assert given.is_text
        assert given.origin == f"environment variable {variable}"
        return given.where

    @pytest.mark.parametrize(
        ("variable", "where"),
        [
            ("PRUNING_PROXY__MODE", ("mode",)),
            ("PRUNING_PROXY__PRUNE__MIN_CHARS", ("prune", "min_chars")),
            ("PRUNING_PROXY__prune__min_chars", ("prune", "min_chars")),
            # Names that are known keep their spelling.
            ("PRUNING_PROXY__UPSTREAMS__OPENAI__BASE_URL", ("upstreams", "openai", "base_url")),
            ("PRUNING_PROXY__UPSTREAMS__MY_GATE_WAY__API_KEY", ("upstreams", "my-gate.way", "api_key")),
            ("PRUNING_PROXY__UPSTREAMS__NEW__BASE_URL", ("upstreams", "new", "base_url")),
            ("PRUNING_PROXY__UPSTREAMS__A__B__BASE_URL", ("upstreams", "a__b", "base_url")),
            # Patterns may be written out, or in the letters that a shell allows.
            ("PRUNING_PROXY__MODELS__claude-*__WINDOW", ("models", "claude-*", "window")),
            ("PRUNING_PROXY__MODELS__GPT_4_1*__WINDOW", ("models", "gpt-4.1*", "window")),
            ("PRUNING_PROXY__MODELS__GPT_4O__WINDOW", ("models", "gpt?4o", "window")),
            # Too short: the loader says that these are no settings.
            ("PRUNING_PROXY__UPSTREAMS__OPENAI", ("upstreams", "openai")),
            ("PRUNING_PROXY__", ("",)),
        ],
    )
    def test_a_variable_names_a_setting(self, variable, where):
        assert self.where(variable) == where

    def test_other_variables_are_not_ours(self):
        assert from_environment({"PRUNING_PROXY_HOME": "x", "OPENAI_API_KEY": "y", "PATH": "z"}, self.KNOWN) == []


def test_flags_that_were_not_given_say_nothing():
    assert written(from_flags({("server", "port"): "5", ("mode",): None})) == {("server", "port"): "5"}


def test_names_with_dots_and_stars_are_quoted():
    assert dotted(("models", "gpt-4.1*", "window")) == 'models."gpt-4.1*".window'
    assert dotted(("upstreams", "my-gateway", "base_url")) == "upstreams.my-gateway.base_url"


class TestStandards:
    def test_variables_of_other_standards_stand_for_settings(self):
        given = from_standards({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SERVICE_NAME": "x"})

        assert written(given) == {("log", "otlp_endpoint"): "http://c:4318"}

    def test_empty_means_unset(self):
        assert from_standards({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) == []
