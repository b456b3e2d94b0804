"""redis-py's client for a standalone server, a Sentinel's master or a Cluster."""

from typing import Any

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from proxy.stores.redis_url import RedisTarget

FIRST_ANSWER_S = 2.0
"""The longest until a new client's first answer: connecting takes many turns of the loop, and a machine that is too busy
for them within a call's usual limit would never get its store back."""


def client_for(target: RedisTarget) -> tuple[Any, list[Any]]:
    """The redis-py client, and those of the sentinels that it asks; they make no connection yet."""
    common: dict[str, Any] = {
        "username": target.username,
        "password": target.password,
        # `redis_asking` bounds the whole call already; bounding each read once more costs a quarter of its CPU.
        "socket_timeout": None,
        "socket_connect_timeout": max(target.timeout_s, FIRST_ANSWER_S),
        # Once more and at once: a pooled connection that the server has closed shows only when it is used.
        "retry": Retry(NoBackoff(), 1),
    }
    if target.tls:
        common |= {"ssl": True, **{name: value for name, value in target.options.items() if name.startswith("ssl_")}}
    if target.kind == "cluster":
        return RedisCluster(startup_nodes=[ClusterNode(host, port) for host, port in target.hosts], **common), []
    if target.kind == "sentinel":
        login = {
            "username": target.options.get("sentinel_username"),
            "password": target.options.get("sentinel_password"),
        }
        sentinel = Sentinel(  # type: ignore[no-untyped-call]  # redis-py leaves this one untyped
            list(target.hosts), sentinel_kwargs={**common, **login}, db=target.db, **common
        )
        return sentinel.master_for(target.service), sentinel.sentinels
    host, port = target.hosts[0]
    return Redis(host=host, port=port, db=target.db, **common), []
