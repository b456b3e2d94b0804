import pytest

from proxy.settings.section import Secret, is_secret, masked, named_key, shown
from proxy.settings.values import Server, Store, Upstream


def test_secrets_are_masked_and_empty_ones_stay_empty():
    assert masked(Upstream(base_url="https://h", api_key="sk-1"))["api_key"] == "****"
    assert masked(Upstream(base_url="https://h"))["api_key"] == ""


def test_keys_are_shown_by_name_only():
    shown_keys = masked(Server(require_keys=("alice=k1", "k2")))["require_keys"]

    assert shown_keys == ("alice=****", f"{named_key('k2')[0]}=****")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://user:pa:ss@host:6379/0", "redis://****@host:6379/0"),
        ("redis://host/0?password=pw&x=1", "redis://host/0?password=****&x=1"),
        ("sqlite:////var/state.db", "sqlite:////var/state.db"),
    ],
)
def test_of_a_store_url_only_the_credentials_go(url, expected):
    assert masked(Store(url=url))["url"] == expected
    assert "pa:ss" not in repr(Store(url=url))


@pytest.mark.parametrize("key", ["correct horse battery", "correct://horse battery"])
def test_a_store_key_is_masked_whatever_it_looks_like(key):
    assert masked(Store(key=key))["key"] == "****"
    assert "horse" not in repr(Store(key=key))


def test_what_is_no_text_is_masked_too():
    """A secret that was written as a number must not be quoted by the error that refuses it."""
    assert shown(Secret, 12345) == "****"


def test_only_secrets_are_secrets():
    assert is_secret(Secret)
    assert is_secret(tuple[Secret, ...])
    assert not is_secret(str)
    assert not is_secret(tuple[str, ...])


@pytest.mark.parametrize(
    ("entry", "name", "key"),
    [
        ("alice=secret", "alice", "secret"),
        ("ci-2=a=b", "ci-2", "a=b"),
        ("alice=c2VjcmV0==", "alice", "c2VjcmV0=="),
    ],
)
def test_a_key_may_have_a_name(entry, name, key):
    assert named_key(entry) == (name, key)


@pytest.mark.parametrize("entry", ["secret", "c2VjcmV0==", "sk/+x=", "two words=x"])
def test_a_key_without_a_name_is_known_by_its_digest(entry):
    name, key = named_key(entry)

    assert key == entry
    assert name.startswith("key-")
    assert name == named_key(entry)[0] != named_key(entry + "!")[0]
