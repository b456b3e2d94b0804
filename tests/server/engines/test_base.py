import asyncio
import time

import pytest

from proxy.server.engines.base import STALE_WITHIN_S, Grace, pieces_of

pytestmark = pytest.mark.anyio


async def test_grace_lasts_for_its_time_and_ends():
    grace = Grace(asyncio.get_running_loop())
    grace.begin()
    began = time.monotonic()
    assert grace.lasts

    while grace.lasts:
        await asyncio.sleep(0.01)

    assert time.monotonic() - began >= STALE_WITHIN_S


async def test_grace_of_a_loop_that_was_held_up_lasts_until_it_has_looked_at_its_sockets():
    grace = Grace(asyncio.get_running_loop())
    grace.begin()
    time.sleep(STALE_WITHIN_S + 0.1)
    await asyncio.sleep(0)

    assert grace.lasts


async def test_grace_may_begin_again():
    grace = Grace(asyncio.get_running_loop())
    grace.begin()
    while grace.lasts:
        await asyncio.sleep(0.01)
    grace.begin()

    assert grace.lasts


async def test_grace_that_was_closed_changes_no_more():
    grace = Grace(asyncio.get_running_loop())
    assert not grace.lasts
    grace.begin()
    grace.close()
    await asyncio.sleep(STALE_WITHIN_S + 0.5)

    assert grace.lasts


@pytest.mark.parametrize("size", [1, 3, 10, 11])
async def test_pieces_of_a_body_are_the_body(size):
    pieces = [piece async for piece in pieces_of(b"0123456789", size)]

    assert b"".join(pieces) == b"0123456789"
    assert {len(piece) for piece in pieces[:-1]} <= {size}
