"""The memory store's own bounds; what it shares with the others is in test_contract."""

import pytest

from proxy.conversation.edit import Insert, Plan, RestoreReasoning, StripReasoning, Summarise
from proxy.errors import Unstorable
from proxy.ledger.store import Settlement
from proxy.stores.memory import MemoryStore, plan_bytes
from tests.stores.conftest import a_plan, a_turn, an_anchor, key

pytestmark = pytest.mark.anyio


def a_store(clock, **changes):
    return MemoryStore(ttl_s=10.0, clock=clock, **changes)


async def test_the_least_recently_used_anchor_goes_first(clock):
    store = a_store(clock, most_anchors=2)
    for name in "ab":
        await store.settle(Settlement(an_anchor(name), a_turn()))
    await store.anchors([key("a")])
    await store.settle(Settlement(an_anchor("c"), a_turn()))

    assert [anchor and anchor.key for anchor in await store.anchors([key("a"), key("b"), key("c")])] == [
        key("a"),
        None,
        key("c"),
    ]


async def test_memory_stays_within_its_room(clock):
    store = a_store(clock, room_bytes=200_000)
    for number in range(2_000):
        plan = a_plan(f"{number} " + "x" * 500)
        await store.decide(an_anchor(str(number), plan=plan), plan)
        await store.settle(Settlement(an_anchor(str(number), plan=plan), a_turn(number)))

    assert 100_000 < store.held_bytes <= 200_000
    assert await store.anchors([key("1999")]) != [None]


async def test_a_plan_larger_than_its_room_is_refused(clock):
    store = a_store(clock, room_bytes=10_000)
    plan = a_plan("x" * 20_000)

    with pytest.raises(Unstorable, match="does not fit"):
        await store.decide(an_anchor("a", plan=plan), plan)
    assert await store.anchors([key("a")]) == [None]


async def test_a_learned_value_larger_than_its_room_is_refused(clock):
    with pytest.raises(Unstorable):
        await a_store(clock).learn("name", bytes(5 * 1024 * 1024))


def test_the_texts_of_every_edit_count():
    text = "x" * 1000
    plan = Plan(
        (
            Summarise(first=b"a", last=b"b", text=text, reason="", tokens_before=1, tokens_after=1, by_model=True),
            Insert(after=b"a", text=text, tokens_after=1),
            RestoreReasoning(at=b"a", payload=text, tokens_after=1),
            StripReasoning(at=b"a", tokens_before=1),
        )
    )

    assert plan_bytes(plan) == 200 + 4 * 400 + 3000
