"""What talks to a server is tested with real ones in test_contract and test_redis; here, who is asked."""

import pytest
from redis.asyncio import Redis, RedisCluster

from proxy.stores.redis_client import client_for
from proxy.stores.redis_url import read_redis_url

pytestmark = pytest.mark.anyio


async def test_one_server_is_asked_under_its_own_address():
    client, sentinels = client_for(read_redis_url("redis://me:secret@there:6380/3"))
    options = client.connection_pool.connection_kwargs

    assert isinstance(client, Redis)
    assert (options["host"], options["port"], options["db"], options["username"]) == ("there", 6380, 3, "me")
    assert sentinels == []


async def test_a_sentinel_leads_to_the_master_and_is_closed_with_it():
    client, sentinels = client_for(read_redis_url("redis+sentinel://one:26379,two:26379/mymaster"))

    assert client.connection_pool.service_name == "mymaster"
    assert len(sentinels) == 2


async def test_a_cluster_has_a_client_of_its_own():
    client, sentinels = client_for(read_redis_url("redis+cluster://one:7000,two:7001"))

    assert isinstance(client, RedisCluster)
    assert sentinels == []
