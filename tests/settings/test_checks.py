import sys
from pathlib import Path

import certifi
import pytest

from proxy.errors import SettingsError
from proxy.settings.checks import STORE_SCHEMES, base_url, checked
from proxy.settings.values import UPSTREAMS, Log, Prune, Server, Settings, Store, Upstream
from proxy.stores import OPENERS


def refused(settings, written=()):
    with pytest.raises(SettingsError) as caught:
        checked(settings, dict.fromkeys(written, "test"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def with_upstream(**values):
    return Settings(upstreams={"mine": Upstream(**{"base_url": "https://h", **values})})


def test_the_defaults_are_right():
    assert checked(Settings(), {}) == Settings()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com", "https://api.openai.com"),
        ("https://api.openai.com/", "https://api.openai.com"),
        # A version written with it would come twice: clients bring it in their path.
        ("https://api.openai.com/v1", "https://api.openai.com"),
        ("https://api.openai.com/v1/", "https://api.openai.com"),
        ("https://g.example/v1beta", "https://g.example"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("http://[::1]:8000/up", "http://[::1]:8000/up"),
        ("https://h/v10", "https://h/v10"),
    ],
)
def test_a_base_url_is_what_stands_before_the_version(url, expected):
    assert base_url("upstreams.x.base_url", url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "openai",
        "ftp://h",
        "https://",
        "https://h:0",
        "https://h:port",
        "https://h/?key=a",
        "https://h/#a",
        "https://a b/",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(SettingsError, match=r"upstreams\.x\.base_url: expected an address"):
        base_url("upstreams.x.base_url", url)


@pytest.mark.parametrize("url", ["https://user:pass-word@h", "https://h/?key=pass-word"])
def test_credentials_in_an_address_are_refused_and_not_repeated(url):
    with pytest.raises(SettingsError) as caught:
        base_url("upstreams.x.base_url", url)

    assert "pass-word" not in str(caught.value)


def test_an_own_key_wants_proxy_keys_beside_it():
    """Otherwise whoever reaches the port would spend it."""
    text = refused(with_upstream(api_key="sk-1"))

    assert text.startswith("upstreams.mine.api_key: expected server.require_keys beside it")
    assert checked(Settings(server=Server(require_keys=("k",)), upstreams=with_upstream(api_key="sk-1").upstreams), {})


def test_a_written_upstream_needs_an_address():
    settings = Settings(upstreams=UPSTREAMS)

    assert "upstreams.azure.base_url" in refused(settings, [("upstreams", "azure", "timeout_s")])
    assert checked(settings, {}).upstreams["azure"].base_url == ""


def test_an_upstream_name_must_fit_into_a_path():
    assert "expected a name of letters" in refused(Settings(upstreams={"a/b": Upstream(base_url="https://h")}))


def test_a_ca_file_must_be_there_and_hold_certificates(tmp_path):
    authorities, empty, binary = tmp_path / "ca.pem", tmp_path / "empty.pem", tmp_path / "binary.pem"
    authorities.write_bytes(Path(certifi.where()).read_bytes())
    empty.write_text("")
    binary.write_bytes(b"\x00\xff" * 500)

    assert "ca_file: expected a PEM file, cannot read" in refused(with_upstream(ca_file=str(tmp_path / "none.pem")))
    assert "ca_file: expected a PEM file" in refused(with_upstream(ca_file=str(tmp_path)))
    for useless in (empty, binary):
        assert f"expected a PEM file with certificates, got {str(useless)!r}" in refused(
            with_upstream(ca_file=str(useless))
        )
    assert checked(with_upstream(ca_file=str(authorities)), {}).upstreams["mine"].ca_file == str(authorities)


def test_a_ca_file_may_stand_under_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ca.pem").write_bytes(Path(certifi.where()).read_bytes())

    assert checked(with_upstream(ca_file="~/ca.pem"), {}).upstreams["mine"].ca_file == str(Path(tmp_path, "ca.pem"))


@pytest.mark.parametrize(
    ("host", "port", "url", "is_itself"),
    [
        ("127.0.0.1", 8787, "http://127.0.0.1:8787", True),
        ("127.0.0.1", 8787, "http://localhost:8787/v1", True),
        ("0.0.0.0", 8787, "http://0.0.0.0:8787", True),
        ("proxy.corp.example", 80, "http://proxy.corp.example", True),
        # Another program, another machine, another of its upstreams.
        ("127.0.0.1", 8787, "http://127.0.0.1:8788", False),
        ("127.0.0.1", 8787, "http://10.0.0.1:8787", False),
        ("127.0.0.1", 8787, "http://127.0.0.1:8787/up/groq", False),
        ("127.0.0.1", 0, "http://127.0.0.1:8787", False),
    ],
)
def test_an_upstream_is_not_the_proxy_itself(host, port, url, is_itself):
    settings = Settings(server=Server(host=host, port=port), upstreams=with_upstream(base_url=url).upstreams)
    written = {("upstreams", "mine", "base_url"): "command line"}
    if is_itself:
        assert "upstreams.mine.base_url: expected the provider's address" in refused(settings, written)
    else:
        checked(settings, written)


def test_a_built_in_upstream_may_have_the_proxy_s_own_port():
    settings = Settings(server=Server(port=8080), upstreams=UPSTREAMS)

    assert checked(settings, {}).upstreams["llamacpp"].base_url == "http://127.0.0.1:8080"


@pytest.mark.parametrize("keys", [("a", "a"), ("n=a", "n=b"), ("n=a", "m=a")])
def test_each_proxy_key_stands_once(keys):
    assert "may stand there once" in refused(Settings(server=Server(require_keys=keys)))


@pytest.mark.parametrize("key", ["", " ", "=", "=="])
def test_a_proxy_key_is_not_empty(key):
    """An empty key would let everybody in."""
    assert "got an empty entry" in refused(Settings(server=Server(require_keys=(key,))))


def test_every_store_that_can_be_opened_can_be_named():
    assert set(STORE_SCHEMES) == set(OPENERS)


@pytest.mark.parametrize("url", ["", "state.db", "sqlite:///", "postgres://user:pass-word@h", "redis:pass-word"])
def test_a_store_url_has_a_known_scheme(url):
    text = refused(Settings(store=Store(url=url)))

    assert text.startswith("store.url: expected sqlite:///PATH")
    assert "pass-word" not in text


def test_workers_cannot_share_a_memory():
    store = Store(url="memory://")

    assert "workers cannot share memory://" in refused(Settings(server=Server(workers=2), store=store))
    assert checked(Settings(store=store), {}).store.url == "memory://"


def test_release_below_engage():
    assert "prune.release" in refused(Settings(prune=Prune(engage=0.5, release=0.5)))


def test_the_collectors_address_stands_before_its_path():
    settings = checked(Settings(log=Log(otlp_endpoint="http://collector:4318/")), {})

    assert settings.log.otlp_endpoint == "http://collector:4318"


def test_the_collectors_address_is_one_and_has_no_credentials():
    assert refused(Settings(log=Log(otlp_endpoint="collector:4317"))).startswith(
        "log.otlp_endpoint: expected an address"
    )
    with_password = refused(Settings(log=Log(otlp_endpoint="http://u:hush@collector:4318")))

    assert "OTEL_EXPORTER_OTLP_HEADERS" in with_password
    assert "hush" not in with_password


def test_a_store_key_is_long_enough():
    text = refused(Settings(store=Store(key="fifteen letters")))

    assert text == "store.key: expected at least 16 characters, got 15"
    assert checked(Settings(store=Store(key="sixteen letters!")), {}).store.key == "sixteen letters!"


def test_a_store_key_wants_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)

    text = refused(Settings(store=Store(key="sixteen letters!")))
    assert text.startswith("store.key: ")
    assert text.endswith("pip install 'pruning-proxy[encryption]'")
    assert checked(Settings(), {}).store.key == ""
