"""The opener: every form of store.url, and what it says about wrong ones."""

import pytest

from proxy.errors import SettingsError, StoreError
from proxy.ledger.store import Settlement
from proxy.stores import OPENERS, open_resilient, open_store
from proxy.stores.memory import MemoryStore
from proxy.stores.redis import RedisStore
from proxy.stores.sqlite import SqliteStore
from tests.stores.conftest import TTL_S, a_turn, an_anchor, key

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", MemoryStore),
        ("sqlite:///{tmp}/state.db", SqliteStore),
        ("sqlite:////{tmp}/with%20space.db", SqliteStore),
        ("sqlite:////{tmp}/state.db?timeout_s=5", SqliteStore),
        ("redis://127.0.0.1:1", RedisStore),
        ("rediss://127.0.0.1:1", RedisStore),
        ("redis+sentinel://127.0.0.1:1/main", RedisStore),
        ("rediss+sentinel://127.0.0.1:1/main", RedisStore),
        ("redis+cluster://127.0.0.1:1", RedisStore),
        ("rediss+cluster://127.0.0.1:1", RedisStore),
    ],
)
async def test_each_form_opens_its_store(url, kind, tmp_path, clock):
    store = open_store(url.format(tmp=str(tmp_path).lstrip("/")), ttl_s=TTL_S, clock=clock)
    await store.close()

    assert type(store) is kind
    assert "with space.db" not in url or (tmp_path / "with space.db").exists()


def test_every_scheme_is_tried_above():
    (mark,) = (mark for mark in test_each_form_opens_its_store.pytestmark if mark.name == "parametrize")

    assert {url.partition("://")[0] for url, _ in mark.args[1]} == set(OPENERS)


async def test_a_tilde_is_the_home_directory(tmp_path, clock, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    await open_store("sqlite:///~/pp/state.db", ttl_s=TTL_S, clock=clock).close()

    assert (tmp_path / "pp" / "state.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "state.db",
        "sqlite",
        "postgres://u:hunter2@h/db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///dir/",
        "sqlite://relative.db",
        "sqlite:///a.db?mode=ro",
        "sqlite:///a.db?timeout_s=31",
        "memory://here",
        "redis://u:hunter2@h/x",
    ],
)
def test_a_wrong_url_names_the_setting_and_no_password(url, clock):
    with pytest.raises(SettingsError, match=r"^store\.url: ") as caught:
        open_store(url, ttl_s=TTL_S, clock=clock)

    assert "hunter2" not in str(caught.value)


def test_a_wrong_url_is_not_sheltered(clock):
    with pytest.raises(SettingsError):
        open_resilient("nothing://", ttl_s=TTL_S, clock=clock)


async def test_a_store_that_cannot_be_opened_now_serves_from_memory(tmp_path, clock):
    (tmp_path / "file").touch()
    url = f"sqlite://{tmp_path}/file/state.db"
    with pytest.raises(StoreError):
        open_store(url, ttl_s=TTL_S, clock=clock)

    said = []
    store = open_resilient(url, ttl_s=TTL_S, clock=clock, on_change=lambda *change: said.append(change))
    await store.settle(Settlement(an_anchor("a"), a_turn()))
    assert await store.anchors([key("a")]) == [an_anchor("a")]
    assert [healthy for healthy, _ in said] == [False]
    await store.close()
