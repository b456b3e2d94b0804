import pytest

from proxy.conversation.edit import Insert
from proxy.ledger.originals import an_original, original_id
from proxy.ledger.store import Settlement
from proxy.server.originals import kept_originals
from proxy.stores.memory import MemoryStore
from tests.builders import a_clear, a_received, a_turn, rounds

pytestmark = pytest.mark.anyio


async def test_those_that_are_kept_come_by_id_and_the_others_are_left_out():
    received = a_received(rounds("one", "two"))
    kept, lost = a_clear(received, 2), a_clear(received, 4)
    original = an_original(original_id(kept), "one")
    ledger = MemoryStore(ttl_s=60.0, clock=lambda: 1000.0)
    await ledger.settle(Settlement(None, a_turn(), [original]))
    said = Insert(after=b"k", text="hi", tokens_after=1)

    assert await kept_originals(ledger, "s1", [kept, lost, said]) == {original.id: original}
    assert await kept_originals(ledger, "elsewhere", [kept]) == {}
