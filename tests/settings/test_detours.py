import pytest

from proxy.errors import SettingsError
from proxy.settings.detours import checked_detour, detour_in, detour_of, is_here

HTTPS = "https://api.openai.com"
HTTP = "http://models.corp.example:8000"
CORP = "http://proxy.corp.example:3128"


@pytest.mark.parametrize(
    ("environ", "base_url", "detour"),
    [
        ({}, HTTPS, ""),
        ({"HTTPS_PROXY": CORP}, HTTPS, CORP),
        ({"https_proxy": CORP}, HTTPS, CORP),
        ({"HTTPS_PROXY": CORP}, HTTP, ""),
        ({"HTTP_PROXY": CORP}, HTTP, CORP),
        ({"HTTP_PROXY": CORP}, HTTPS, ""),
        # Small letters win.
        ({"https_proxy": CORP, "HTTPS_PROXY": "http://other:1"}, HTTPS, CORP),
        ({"HTTPS_PROXY": ""}, HTTPS, ""),
        # Without a scheme, as many write it; with credentials; with a slash.
        ({"HTTPS_PROXY": "proxy.corp.example:3128"}, HTTPS, CORP),
        ({"HTTPS_PROXY": "http://me:s%40crt@proxy:1"}, HTTPS, "http://me:s%40crt@proxy:1"),
        ({"HTTPS_PROXY": CORP + "/"}, HTTPS, CORP),
        # All, where nothing more special is said, and it speaks HTTP.
        ({"ALL_PROXY": CORP}, HTTPS, CORP),
        ({"all_proxy": CORP}, HTTP, CORP),
        ({"ALL_PROXY": "socks5://127.0.0.1:7890"}, HTTPS, ""),
        ({"ALL_PROXY": "socks5://127.0.0.1:7890", "HTTPS_PROXY": CORP}, HTTPS, CORP),
        # This machine itself.
        ({"HTTP_PROXY": CORP}, "http://localhost:11434", ""),
        ({"HTTP_PROXY": CORP}, "http://127.0.0.1:8000", ""),
        ({"HTTP_PROXY": CORP}, "http://127.8.9.1:8000", ""),
        ({"HTTP_PROXY": CORP}, "http://[::1]:8000", ""),
        ({"HTTP_PROXY": CORP}, "http://ollama.localhost", ""),
        # A name without a URL yet.
        ({"HTTPS_PROXY": CORP}, "", ""),
    ],
)
def test_the_environment_names_a_proxy_by_the_scheme_of_the_address(environ, base_url, detour):
    assert detour_in(environ, base_url) == detour


@pytest.mark.parametrize(
    ("listed", "host", "direct"),
    [
        ("*", "https://anything.example", True),
        ("example.com", "https://example.com", True),
        ("example.com", "https://api.example.com", True),
        (".example.com", "https://api.example.com", True),
        ("*.example.com", "https://api.example.com", True),
        ("EXAMPLE.com", "https://api.example.COM", True),
        ("example.com", "https://badexample.com", False),
        ("other.example, example.com ,", "https://example.com", True),
        ("example.com:8000", "https://example.com:8000", True),
        ("example.com:8000", "https://example.com", False),
        ("10.1.2.3", "https://10.1.2.3:8000", True),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("fd00::/8", "https://[fd12::1]:8000", True),
        ("", "https://example.com", False),
        (",", "https://example.com", False),
    ],
)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_no_proxy_lists_exceptions(listed, host, direct, variable):
    assert (detour_in({"HTTPS_PROXY": CORP, variable: listed}, host) == "") == direct


@pytest.mark.parametrize(
    "url", ["socks5://h:1", "https://h:1", "http://", "http://h:99999", "http://h:0", "http://h/path", "http://[::1"]
)
def test_what_is_no_http_proxy_is_refused_without_quoting_it(url):
    with pytest.raises(SettingsError) as caught:
        checked_detour("environment variable HTTPS_PROXY", url.replace("//", "//me:secret@"))

    assert "environment variable HTTPS_PROXY: expected" in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(SettingsError, match="HTTPS_PROXY"):
        detour_in({"HTTPS_PROXY": url}, HTTPS)


def test_nothing_and_auto_stand_for_none_once_the_environment_was_asked():
    assert [detour_of(written) for written in ("", "auto", CORP)] == ["", "", CORP]


def test_an_address_of_this_machine_alone():
    assert [is_here(url) for url in ("http://127.0.0.1:1/x", "http://localhost", "http://10.0.0.1", "x")] == [
        True,
        True,
        False,
        False,
    ]
