import asyncio

import pytest

from proxy.errors import StoreError
from proxy.ledger.store import SessionSummary
from proxy.server.lifetimes import ENDED_S, REFRESH_S, Lifetimes

pytestmark = pytest.mark.anyio
NOW = 1_000_000.0


def a_session(turns, *, idle_s, session="s"):
    return SessionSummary(
        session=session, label="", model="m", upstream="u", turns=turns, first_at=0.0, last_at=NOW - idle_s,
        input_tokens=0, removed_tokens=0,
    )  # fmt: skip


class Sessions:
    def __init__(self, *found):
        self.found = found
        self.reads = 0

    async def sessions(self, limit):
        self.reads += 1
        if not self.found:
            raise StoreError("gone")
        return list(self.found)[:limit]


async def test_only_conversations_that_ended_count():
    ledger = Sessions(a_session(7, idle_s=ENDED_S + 1), a_session(3, idle_s=10))
    lifetimes = Lifetimes(ledger, lambda: NOW)

    assert lifetimes.known().calls == ()
    await asyncio.sleep(0.01)
    assert lifetimes.known().calls == (7,)


async def test_the_ledger_is_read_now_and_then_only():
    clock = [NOW]
    ledger = Sessions(a_session(7, idle_s=ENDED_S + 1))
    lifetimes = Lifetimes(ledger, lambda: clock[0])
    for _ in range(5):
        lifetimes.known()
        await asyncio.sleep(0.001)
    assert ledger.reads == 1

    clock[0] += REFRESH_S
    lifetimes.known()
    await asyncio.sleep(0.01)
    assert ledger.reads == 2


async def test_a_failing_store_teaches_nothing_and_breaks_nothing():
    lifetimes = Lifetimes(Sessions(), lambda: NOW)
    lifetimes.known()
    await asyncio.sleep(0.01)

    assert lifetimes.known().calls == ()
    await lifetimes.aclose()
