"""Sealed values: content does not lie in the store in clear, and what does not open is unknown, never an error."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger.originals import an_original
from proxy.ledger.records import Reply
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores import open_resilient, open_store
from proxy.stores.sealed import PLAIN, sealing_of
from tests.stores.conftest import TTL_S, a_plan, a_turn, a_usage, an_anchor, key

KEY = "correct horse battery staple"
OTHER = "another horse battery staple"
CANARY = "kanarienvogel-4711"
SEALING = sealing_of(KEY)

PLAN = a_plan(f"identifiers: {CANARY}")
ANCHOR = an_anchor(plan=PLAN, usage=a_usage(), replies=(Reply(fingerprint=b"f" * 16, reasoning=f"{CANARY} thinks"),))
ORIGINAL = an_original(key("o"), f"read: {CANARY}")
QUEUE = f"queued: {CANARY}".encode()


class Place:
    """A store that outlives its openings; `raw` gives every byte that lies in it."""

    def __init__(self, url, raw, clock):
        self.url, self.raw, self._clock = url, raw, clock

    def open(self, passphrase="", opener=open_store):
        return opener(self.url, ttl_s=TTL_S, clock=self._clock, key=passphrase)


@pytest.fixture(params=["sqlite", "redis"])
def place(request, tmp_path, clock):
    if request.param == "sqlite":
        return Place(
            f"sqlite://{tmp_path}/state.db?timeout_s=10",
            lambda: b"".join(path.read_bytes() for path in tmp_path.glob("state.db*")),
            clock,
        )
    server = request.getfixturevalue("own_redis")

    def dumped():
        # Uncompressed, so that the file would show what is in it.
        server.cli("config", "set", "rdbcompression", "no")
        server.cli("save")
        return Path(server.cli("config", "get", "dir").split()[-1], "dump.rdb").read_bytes()

    return Place(f"{server.url}?timeout_s=10", dumped, clock)


async def fill(store):
    await store.decide(ANCHOR, PLAN)
    await store.settle(Settlement(ANCHOR, a_turn(), [ORIGINAL]))
    await store.learn("queue", QUEUE)


async def held(store):
    (anchor,) = await store.anchors([ANCHOR.key])
    (original,) = await store.originals("s-1", [ORIGINAL.id])
    return anchor, await store.plan(ANCHOR.plan_id), await store.learned("queue"), original


async def filled(place, passphrase):
    store = place.open(passphrase)
    await fill(store)
    await store.close()


async def read(place, passphrase):
    store = place.open(passphrase)
    found = await held(store)
    await store.close()
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("passphrase", ["", KEY])
async def test_memory_gives_back_what_it_was_given_with_or_without_a_key(clock, passphrase):
    store = open_store("memory://", ttl_s=TTL_S, clock=clock, key=passphrase)
    await fill(store)

    assert await held(store) == (ANCHOR, PLAN, QUEUE, ORIGINAL)
    await store.close()


@pytest.mark.anyio
async def test_content_lies_in_the_store_in_clear_only_without_a_key(place):
    await filled(place, KEY)
    assert CANARY.encode() not in place.raw()

    await filled(place, "")
    assert CANARY.encode() in place.raw()


@pytest.mark.anyio
@pytest.mark.parametrize("passphrase", ["", KEY])
async def test_a_restart_with_the_same_key_reads_everything(place, passphrase):
    await filled(place, passphrase)

    assert await read(place, passphrase) == (ANCHOR, PLAN, QUEUE, ORIGINAL)


@pytest.mark.anyio
@pytest.mark.parametrize(("before", "after"), [(KEY, OTHER), (KEY, ""), ("", KEY)])
async def test_under_another_key_everything_but_the_rows_is_unknown_until_it_is_stored_again(place, before, after):
    await filled(place, before)
    assert await read(place, after) == (None, None, None, None)

    store = place.open(after)
    assert await store.turns(TurnQuery()) == [a_turn()]
    await store.close()


@pytest.mark.anyio
@pytest.mark.parametrize(("before", "after"), [(KEY, OTHER), ("", KEY)])
async def test_the_same_plan_decided_again_is_stored_under_the_new_key(place, before, after):
    """Its id is the same, and a store that knows an id need not write the plan: here it must."""
    await filled(place, before)
    await filled(place, after)

    assert await read(place, after) == (ANCHOR, PLAN, QUEUE, ORIGINAL)


@pytest.mark.anyio
async def test_the_shelter_seals_too(place):
    store = place.open(KEY, open_resilient)
    await fill(store)
    await store.close()

    assert store.failures == 0
    assert await read(place, KEY) == (ANCHOR, PLAN, QUEUE, ORIGINAL)
    assert await read(place, "") == (None, None, None, None)


@pytest.mark.anyio
async def test_a_large_plan_is_sealed_on_its_way_through_a_thread(place):
    large = a_plan(*(f"{CANARY} {number} " + "abc" * number for number in range(2000)))
    store = place.open(KEY)
    await store.decide(an_anchor("large", plan=large), large)
    await store.close()
    again = place.open(KEY)

    assert await again.plan(large.plan_id()) == large
    await again.close()


def test_the_same_value_never_looks_the_same_twice():
    assert SEALING.pack_anchor(ANCHOR) != SEALING.pack_anchor(ANCHOR)


def test_replicas_with_one_passphrase_read_each_other():
    stored = sealing_of(KEY).pack_anchor(ANCHOR)

    assert SEALING.unpack_anchor(ANCHOR.key, stored) == ANCHOR
    assert sealing_of(OTHER).unpack_anchor(ANCHOR.key, stored) is None


def test_a_value_cannot_be_moved_to_another_place():
    assert SEALING.unpack_anchor(key("b"), SEALING.pack_anchor(ANCHOR)) is None
    assert SEALING.unpack_plan(b"x" * 16, SEALING.pack_plan(ANCHOR.plan_id, PLAN)) is None
    assert SEALING.unpack_learned("factors", SEALING.pack_learned("queue", QUEUE)) is None


@given(st.integers(0), st.integers(1, 255))
def test_a_changed_value_is_unknown(place, flip):
    stored = bytearray(SEALING.pack_plan(ANCHOR.plan_id, PLAN))
    stored[place % len(stored)] ^= flip

    assert SEALING.unpack_plan(ANCHOR.plan_id, bytes(stored)) is None


@given(st.binary(max_size=60), st.booleans())
def test_junk_is_unknown(junk, marked):
    stored = b"\xc1" + junk if marked else junk

    assert SEALING.unpack_anchor(ANCHOR.key, stored) is None
    assert SEALING.unpack_learned("queue", stored) is None
    assert PLAIN.unpack_learned("queue", stored) == (None if stored[:1] == b"\xc1" else stored)


def test_nothing_is_sealed_without_a_passphrase():
    assert sealing_of("") is PLAIN
    assert PLAIN.pack_learned("queue", QUEUE) == QUEUE
    assert (PLAIN.seals, SEALING.seals) == (False, True)
