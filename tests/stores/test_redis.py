"""What the redis store promises beyond the contract: short patience, expiry and bounds on a real server, TLS and users."""

import asyncio
import shutil
import subprocess
import time

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores import open_store
from proxy.stores.redis import RedisStore
from proxy.stores.redis_url import read_redis_url
from tests.stores.conftest import TTL_S, a_plan, a_turn, a_usage, an_anchor, key, without_binary
from tests.stores.servers import RedisCluster, RedisServer, free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(shared_redis):
    shared_redis.cli("flushall")
    return f"{shared_redis.url}?timeout_s=10"


def a_store(url, clock, **changes):
    return RedisStore(read_redis_url(url), ttl_s=TTL_S, clock=clock, **changes)


async def test_two_replicas_see_each_other_at_once(url, clock):
    left, right = a_store(url, clock), a_store(url, clock)
    plan = a_plan("x")
    await left.decide(an_anchor("a", plan=plan), plan)
    assert await right.anchors([key("a")]) == [an_anchor("a", plan=plan)]
    assert await right.plan(plan.plan_id()) == plan

    await right.settle(Settlement(an_anchor("a", plan=plan, usage=a_usage()), a_turn()))
    assert (await left.anchors([key("a")]))[0].usage == a_usage()
    assert [line.turns for line in await left.sessions(5)] == [1]
    await left.close()
    await right.close()


async def test_every_key_carries_the_schema_and_expires(url, clock, shared_redis):
    store = a_store(url, clock)
    plan = a_plan("x")
    await store.decide(an_anchor("a", plan=plan), plan)
    await store.settle(Settlement(an_anchor("b", plan=plan), a_turn()))
    await store.learn("factor", b"1")

    names = await store._client.keys("*")
    lives = [await store._client.ttl(name) for name in names]
    await store.close()
    assert len(names) == 6
    assert all(name.startswith(b"pp1:") for name in names)
    assert all(TTL_S - 10 < life <= TTL_S for life in lives)


async def test_a_session_keeps_only_its_newest_rows(url, clock):
    store = a_store(url, clock, most_rows=32)
    for number in range(100):
        await store.settle(Settlement(None, a_turn(number)))

        assert len(await store.turns(TurnQuery(session="s-1"))) < 32 + 16
    turns = [turn.turn for turn in await store.turns(TurnQuery(session="s-1"))]
    await store.close()
    assert turns == list(range(99, 99 - len(turns), -1))
    assert len(turns) >= 30


async def test_only_the_newest_sessions_are_listed(url, clock):
    store = a_store(url, clock, most_sessions=5)
    for number in range(64):
        await store.settle(Settlement(None, a_turn(number, session=f"s{number}")))

    assert [line.session for line in await store.sessions(100)] == ["s63", "s62", "s61", "s60", "s59"]
    await store.close()


async def test_rows_of_many_sessions_come_newest_first_across_reads(url, clock):
    store = a_store(url, clock)
    for number in range(200):
        await store.settle(Settlement(None, a_turn(number, session=f"s{number % 40}")))

    turns = [turn.turn for turn in await store.turns(TurnQuery(limit=150))]
    assert turns == list(range(199, 49, -1))
    assert len(await store.turns(TurnQuery(since=a_turn(190).at))) == 10
    await store.close()


async def test_a_session_is_summed_anew_when_it_has_a_new_row(url, clock):
    store = a_store(url, clock)
    await store.settle(Settlement(None, a_turn(1)))
    assert (await store.sessions(1))[0].turns == 1
    await store.settle(Settlement(None, a_turn(2)))
    # An earlier call that ended later: the newest start stays, the sum does not.
    await store.settle(Settlement(None, a_turn(3, at=1_700_000_000.0)))

    assert (await store.sessions(1))[0].turns == 3
    await store.close()


async def test_values_that_are_not_ours_count_as_absent(url, clock, shared_redis):
    store = a_store(url, clock)
    shared_redis.cli("set", "pp1:a:" + key("a").decode(), "junk")
    shared_redis.cli("hset", "pp1:t:s-1", "field", "x")
    assert await store.anchors([key("a")]) == [None]
    assert await store.turns(TurnQuery(session="s-1")) == []
    await store.close()


async def test_a_frozen_server_holds_no_call_longer_than_the_patience(own_redis, clock):
    store = a_store(own_redis.url, clock)
    await store.decide(an_anchor("a"), EMPTY_PLAN)
    own_redis.freeze()
    before = time.monotonic()
    # Far more calls than may talk to Redis at once: those that waited give up with the first.
    results = await asyncio.gather(*(store.anchors([key("a")]) for _ in range(1000)), return_exceptions=True)
    took = time.monotonic() - before
    own_redis.thaw()

    assert all(isinstance(result, StoreError) for result in results)
    # One batch after the other, each as long as the patience, would take 16 s.
    assert took < 8.0
    assert await answers_again(store)
    await store.close()


async def answers_again(store):
    for _ in range(50):
        try:
            return await store.anchors([key("a"), key("b")]) == [an_anchor("a"), None]
        except StoreError:
            await asyncio.sleep(0.05)
    return False


async def test_after_a_freeze_no_answer_goes_to_the_wrong_question(own_redis, clock):
    store = a_store(own_redis.url, clock)
    for number in range(20):
        await store.decide(an_anchor(f"k{number}", turn=number), EMPTY_PLAN)
    for _ in range(3):
        own_redis.freeze()
        await asyncio.gather(*(store.anchors([key(f"k{n}")]) for n in range(20)), return_exceptions=True)
        own_redis.thaw()
        await asyncio.sleep(0.3)
        found = await asyncio.gather(*(store.anchors([key(f"k{n}")]) for n in range(20)), return_exceptions=True)
        assert [answer[0].turn for answer in found if isinstance(answer, list)] == [
            number for number, answer in enumerate(found) if isinstance(answer, list)
        ]
    await store.close()


async def test_a_server_that_is_not_there_is_named_without_the_password(clock):
    port = free_port()
    store = a_store(f"redis://:secret@127.0.0.1:{port}/0", clock)

    with pytest.raises(
        StoreError, match=rf"^redis store: learned failed: cannot reach 127\.0\.0\.1:{port}: Connect call failed$"
    ):
        await store.learned("factor")
    await store.close()


async def test_a_server_that_restarts_is_used_again_without_a_new_store(own_redis, clock):
    store = a_store(own_redis.url, clock)
    await store.learn("factor", b"1")
    own_redis.kill()
    with pytest.raises(StoreError, match=r"learned failed: (ConnectionError|cannot reach \S+:\d+: .*Connect)"):
        await store.learned("factor")

    own_redis.start()
    await store.learn("factor", b"2")
    assert await store.learned("factor") == b"2"
    await store.close()


async def test_an_error_of_the_server_names_its_code_and_no_value(own_redis, clock):
    store = a_store(own_redis.url, clock)
    own_redis.cli("config", "set", "maxmemory", "1")
    with pytest.raises(StoreError) as caught:
        await store.settle(Settlement(None, a_turn(label="a private label")))

    assert "settle failed: OutOfMemoryError" in str(caught.value)
    assert "private" not in str(caught.value)
    await store.close()


async def test_a_user_with_rights_on_our_keys_alone_is_enough(tmp_path, clock):
    without_binary()
    server = RedisServer(tmp_path / "acl").start()
    server.cli(
        "acl", "setuser", "proxy", "on", ">s3cret:/", "~pp1:*", "+@read", "+@write", "+@connection", "+@keyspace"
    )
    store = open_store(f"redis://proxy:s3cret%3A%2F@127.0.0.1:{server.port}", ttl_s=TTL_S, clock=clock)
    plan = a_plan("x")
    await store.decide(an_anchor("a", plan=plan), plan)
    await store.settle(Settlement(an_anchor("a", plan=plan), a_turn()))

    assert len(await store.turns(TurnQuery())) == 1
    await store.close()

    wrong = open_store(f"redis://proxy:wrong@127.0.0.1:{server.port}", ttl_s=TTL_S, clock=clock)
    with pytest.raises(StoreError) as caught:
        await wrong.learned("x")
    assert "wrong" not in str(caught.value)
    await wrong.close()
    server.kill()


async def test_tls_with_a_private_authority(tmp_path, clock):
    without_binary()
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine to make a certificate with")
    wish = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext"
    subprocess.run(
        ["openssl", *wish.split(), "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True
    )
    files = ["--tls-cert-file", tmp_path / "cert.pem", "--tls-key-file", tmp_path / "key.pem"]
    port = free_port()
    server = RedisServer(
        tmp_path / "tls", "--tls-port", str(port), *map(str, files), "--tls-auth-clients", "no"
    ).start()
    place = f"rediss://127.0.0.1:{port}"
    trusting = open_store(f"{place}?ssl_ca_certs={tmp_path}/cert.pem&timeout_s=10", ttl_s=TTL_S, clock=clock)
    await trusting.learn("factor", b"1")

    assert await trusting.learned("factor") == b"1"
    await trusting.close()

    strict = open_store(f"{place}?timeout_s=10", ttl_s=TTL_S, clock=clock)
    with pytest.raises(StoreError):
        await strict.learned("factor")
    await strict.close()
    server.kill()


async def test_a_sentinel_that_knows_no_such_service_is_a_store_error(shared_sentinel, clock):
    url = shared_sentinel.url.replace("/ledger/", "/other/") + "?timeout_s=10"
    store = open_store(url, ttl_s=TTL_S, clock=clock)
    with pytest.raises(StoreError, match="MasterNotFoundError"):
        await store.learned("factor")
    await store.close()


@pytest.mark.slow
async def test_after_a_node_of_a_cluster_froze_no_answer_goes_to_the_wrong_question(tmp_path, clock):
    without_binary()
    cluster = RedisCluster(tmp_path / "cluster").start()
    store = open_store(f"{cluster.url}?timeout_s=0.5", ttl_s=TTL_S, clock=clock)
    keys = [key(f"k{number}") for number in range(40)]
    for number in range(40):
        await store.decide(an_anchor(f"k{number}", turn=number), EMPTY_PLAN)
    cluster.nodes[1].freeze()
    frozen = await asyncio.gather(*(store.anchors([one]) for one in keys), return_exceptions=True)
    assert any(isinstance(answer, StoreError) for answer in frozen)
    cluster.nodes[1].thaw()
    await asyncio.sleep(1.0)

    for _ in range(3):
        found = await asyncio.gather(*(store.anchors([one]) for one in keys), return_exceptions=True)
        assert all(answer[0].turn == n for n, answer in enumerate(found) if isinstance(answer, list))
    assert [anchor.turn for anchor in await store.anchors(keys)] == list(range(40))
    await store.close()
    cluster.kill()


@pytest.mark.slow
async def test_a_cluster_with_a_dead_node_fails_in_time_for_its_keys(tmp_path, clock):
    without_binary()
    cluster = RedisCluster(tmp_path / "cluster").start()
    store = open_store(f"{cluster.url}?timeout_s=1", ttl_s=TTL_S, clock=clock)
    for number in range(30):
        await store.decide(an_anchor(f"k{number}"), EMPTY_PLAN)
    assert None not in await store.anchors([key(f"k{number}") for number in range(30)])

    cluster.nodes[0].kill()
    before = time.monotonic()
    with pytest.raises(StoreError):
        await store.anchors([key(f"k{number}") for number in range(30)])
    assert time.monotonic() - before < 10.0
    await store.close()
    cluster.kill()


async def test_of_several_failures_the_one_of_the_store_is_told(own_redis, clock):
    store = a_store(own_redis.url, clock)
    await store.settle(Settlement(None, a_turn()))
    own_redis.cli("config", "set", "maxmemory", "1")
    odd = Settlement(None, a_turn(2, label="\ud800"))
    with pytest.raises(StoreError, match="OutOfMemoryError"):
        await store.settle(odd, Settlement(None, a_turn(3)))
    await store.close()
