"""Summaries that wait for their conversations, as every process that shares the ledger sees them."""

import pytest

from proxy.conversation.edit import Summarise
from proxy.server.written import Written
from tests.server.stores import Failing, a_store

pytestmark = pytest.mark.anyio

EDIT = Summarise(
    first=b"f" * 16, last=b"l" * 16, text="What was.", reason="old", tokens_before=900, tokens_after=20, by_model=True
)


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def written(ledger, clock=None):
    return Written(ledger, clock or Clock(), writing_s=120.0)


async def ready_in(shelf):
    await shelf.look("s")
    return list(shelf._ready.values())


async def test_what_one_process_has_written_every_other_finds():
    ledger = a_store()
    await written(ledger).put("s", EDIT)

    assert await ready_in(written(ledger)) == [EDIT]
    assert not await written(ledger).look("s")
    assert not await written(ledger).look("another")


@pytest.mark.parametrize(
    ("moved_s", "is_writing"),
    [
        (0.0, True),
        (119.0, True),
        # It has died.
        (121.0, False),
        # Its clock was wrong, or ours is.
        (-3600.0, False),
    ],
)
async def test_another_process_is_at_it_for_as_long_as_it_may_take(moved_s, is_writing):
    ledger, clock = a_store(), Clock()
    await written(ledger, clock).claim("s")
    clock.now_s += moved_s

    assert await written(ledger, clock).look("s") is is_writing


async def test_what_came_to_nothing_is_free():
    ledger = a_store()
    await written(ledger).claim("s")
    await written(ledger).release("s")

    assert not await written(ledger).look("s")


async def test_half_a_character_keeps_no_summary_from_being_stored():
    ledger = a_store()
    await written(ledger).put("s", Summarise(**{**_fields(EDIT), "text": "cut \ud83d here"}))

    assert [edit.text for edit in await ready_in(written(ledger))] == ["cut ? here"]


def _fields(edit):
    return {name: getattr(edit, name) for name in edit.__struct_fields__}


async def test_without_a_store_it_is_ready_in_this_process():
    shelf = written(Failing("learn", "learned"))
    await shelf.claim("s")
    await shelf.put("s", EDIT)

    assert not await shelf.look("s")
    assert await ready_in(shelf) == [EDIT]


async def test_what_another_version_has_stored_counts_as_nothing():
    ledger = a_store()
    await ledger.learn("summary/s", b"something new")

    assert not await written(ledger).look("s")


async def test_the_newest_are_kept():
    shelf = written(a_store())
    for number in range(300):
        await shelf.put(f"s{number}", Summarise(**{**_fields(EDIT), "last": b"%016d" % number}))

    assert [edit.last for edit in shelf._ready.values()] == [b"%016d" % number for number in range(44, 300)]
