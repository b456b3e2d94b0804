"""The forms of store.url for Redis."""

import pytest

from proxy.errors import SettingsError
from proxy.stores.redis_url import read_redis_url


def test_one_server_with_everything_left_out():
    target = read_redis_url("redis://cache.internal")

    assert (target.kind, target.hosts, target.tls, target.db) == ("", (("cache.internal", 6379),), False, 0)
    assert (target.username, target.password, target.timeout_s) == (None, None, 0.25)


def test_user_password_port_and_database_are_read_and_decoded():
    target = read_redis_url("rediss://us%40er:p%3Aa%2Fss@[::1]:7000/3?ssl_ca_certs=/etc/ca.pem&timeout_s=1.5")

    assert (target.username, target.password) == ("us@er", "p:a/ss")
    assert (target.hosts, target.tls, target.db, target.timeout_s) == ((("::1", 7000),), True, 3, 1.5)
    assert target.options == {"ssl_ca_certs": "/etc/ca.pem"}


def test_a_password_without_a_user():
    assert read_redis_url("redis://:secret@h").password == "secret"
    assert read_redis_url("redis://:secret@h").username is None


def test_sentinel_names_its_service():
    target = read_redis_url("redis+sentinel://u:p@a:26379,b/main/2?sentinel_password=s")

    assert (target.kind, target.service, target.db) == ("sentinel", "main", 2)
    assert target.hosts == (("a", 26379), ("b", 26379))
    assert target.options == {"sentinel_password": "s"}


def test_cluster_has_several_hosts_and_no_database():
    target = read_redis_url("rediss+cluster://a:7001,b:7002")

    assert (target.kind, target.hosts, target.tls) == ("cluster", (("a", 7001), ("b", 7002)), True)


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://h:0",
        "redis://h:99999",
        "redis://h:port",
        "redis://a,b",
        "redis://h/one",
        "redis://h/1/2",
        "redis://h?timeout_s=soon",
        "redis://h?timeout_s=0",
        "redis://h?timeout_s=nan",
        "redis://h?ssl_ca_certs=/x",
        "redis://h?sentinel_password=x",
        "redis+sentinel://h:1",
        "redis+cluster://h:1/0",
    ],
)
def test_a_wrong_url_names_the_setting(url):
    with pytest.raises(SettingsError, match=r"^store\.url: "):
        read_redis_url(url)


def test_no_error_and_no_repr_shows_the_password():
    with pytest.raises(SettingsError) as caught:
        read_redis_url("redis://user:hunter2@h/one")

    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(read_redis_url("redis://user:hunter2@h/1"))
