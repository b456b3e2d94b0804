"""Builders with defaults, a clock that tests set, and the stores that the contract runs over."""

import pytest

from proxy.conversation.edit import EMPTY_PLAN, Plan, Replace
from proxy.ledger.records import Anchor, Reply, Turn
from proxy.tokens.usage import Usage
from tests.stores.servers import BINARY, RedisCluster, RedisServer, Sentinels

TTL_S = 3600.0


class Clock:
    """Unix time as the test wants it."""

    def __init__(self, now=1_800_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    """Where a file store may lie."""
    return tmp_path / "state.db"


def key(name):
    """A prefix key that can be read in a failure."""
    return name.encode().ljust(16, b".")[:16]


def a_usage(**changes):
    return Usage(**{"input_tokens": 1200, "cache_read_tokens": 1000, "output_tokens": 80, **changes})


def an_anchor(name="a", *, plan=EMPTY_PLAN, **changes):
    values = {
        "key": key(name),
        "session": "s-1",
        "turn": 1,
        "at": 1_800_000_000.0,
        "upstream": "openai",
        "model": "gpt-5",
        "plan_id": plan.plan_id(),
        "replies": (Reply(fingerprint=b"f" * 16, share=1.0, calls=2),),
        "system_digest": b"d" * 16,
        "estimated": 1180,
    }
    return Anchor(**{**values, **changes})


def a_turn(turn=1, **changes):
    values = {
        "session": "s-1",
        "turn": turn,
        "at": 1_800_000_000.0 + turn,
        "upstream": "openai",
        "model": "gpt-5",
        "dialect": "openai_chat",
        "basis": "anchored",
        "estimated": 1180,
        "usage": a_usage(),
        "removed_tokens": 7,
        "edits": {"clear": 3},
        "by_tool": {"bash": 900, "read": 40},
        "decisions": ("clear bash 900: older than the newest 40k",),
    }
    return Turn(**{**values, **changes})


def a_plan(*texts):
    return Plan(
        tuple(
            Replace(
                at=key(f"m{index}"),
                part=0,
                kind="clear",
                text=text,
                reason="old",
                tool="bash",
                tokens_before=900,
                tokens_after=20,
            )
            for index, text in enumerate(texts or ("[cleared]",))
        )
    )


def without_binary():
    if BINARY is None:
        pytest.skip("no redis-server on this machine: install it to test the redis store")


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory):
    """One server for all tests that only read and write; emptied by the test that uses it."""
    without_binary()
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server.start()
    server.kill()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory):
    without_binary()
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster.start()
    cluster.kill()


@pytest.fixture(scope="session")
def shared_sentinel(tmp_path_factory, shared_redis):
    sentinel = Sentinels(tmp_path_factory.mktemp("sentinel"), shared_redis)
    yield sentinel.start()
    sentinel.kill()


@pytest.fixture
def own_redis(tmp_path):
    """A server that the test may freeze and kill."""
    without_binary()
    server = RedisServer(tmp_path / "redis").start()
    yield server
    server.kill()
