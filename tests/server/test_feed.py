import asyncio

import pytest

from proxy.server.feed import Feed

pytestmark = pytest.mark.anyio


def kinds_of(events):
    return [event.kind for event in events]


async def test_everybody_who_watches_is_told():
    feed = Feed()
    with feed.watching() as one, feed.watching() as other:
        feed.publish("call", {"turn": 1})
        feed.publish("mode", {})

        assert kinds_of(one.take()) == kinds_of(other.take()) == ["call", "mode"]
        assert one.take() == []


async def test_a_watcher_is_woken_up():
    feed = Feed()
    with feed.watching() as watcher:
        asyncio.get_running_loop().call_soon(feed.publish, "call", {})
        await asyncio.wait_for(watcher.news.wait(), 30)

        assert kinds_of(watcher.take()) == ["call"]
        assert not watcher.news.is_set()


async def test_whoever_is_too_slow_loses_the_oldest_and_is_told_how_many():
    feed = Feed()
    with feed.watching() as watcher:
        for number in range(600):
            feed.publish("call", {"turn": number})
        lost, *kept = watcher.take()

        assert (lost.kind, lost.fields) == ("lost", {"events": 600 - len(kept)})
        assert [event.fields["turn"] for event in kept] == list(range(600 - len(kept), 600))
        feed.publish("call", {})
        assert kinds_of(watcher.take()) == ["call"]


async def test_it_is_known_whether_anybody_watches():
    feed = Feed()
    assert not feed.watched

    with feed.watching():
        assert (feed.watched, feed.watchers) == (True, 1)
    assert not feed.watched


async def test_at_the_end_everybody_is_woken_up():
    feed = Feed()
    with feed.watching() as watcher:
        feed.end()

        assert watcher.news.is_set()
        assert feed.ended
