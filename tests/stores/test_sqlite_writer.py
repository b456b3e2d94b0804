"""The writing thread: what is durable when, full disks, and the bounds that it keeps."""

import asyncio
import contextlib
import gc
import sqlite3
import time
from functools import partial

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores.codec import pack
from proxy.stores.sqlite_file import open_file
from proxy.stores.sqlite_rows import Rows
from proxy.stores.sqlite_writer import Writer
from tests.stores.conftest import a_plan, a_turn, an_anchor, key
from tests.stores.files import a_store, finished, rows_in, run_beside, until

pytestmark = pytest.mark.anyio


async def longest_pause(store):
    """Seconds that the loop took for one turn while the store wrote."""
    longest, stop = 0.0, False

    async def watch():
        nonlocal longest
        while not stop:
            before = time.thread_time()
            await asyncio.sleep(0)
            # CPU time of this thread: the machine may be busy, the store may not.
            longest = max(longest, time.thread_time() - before)

    watcher = asyncio.get_running_loop().create_task(watch())
    plan = a_plan("text " * 20_000)
    for number in range(400):
        await store.settle(Settlement(an_anchor(str(number), plan=plan), a_turn(number)))
        if number % 100 == 0:
            await store.decide(an_anchor(f"d{number}", plan=plan), plan)
        await asyncio.sleep(0)
    stop = True
    await watcher
    return longest


async def settle_for_ever(store):
    """Until that fails: a disk may be slow to say so."""
    async with asyncio.timeout(60):
        while True:
            await store.settle(Settlement(None, a_turn()))
            await asyncio.sleep(0.05)


async def test_the_event_loop_is_never_held_up_by_writing(path, clock, request):
    store = a_store(path, clock)
    # The garbage of earlier tests is not its business.
    gc.disable()
    request.addfinalizer(gc.enable)
    # A virtual machine counts as ours what its host takes in between: one of these goes undisturbed, mostly the first.
    for _ in range(10):
        pause = await longest_pause(store)
        if pause < 0.005:
            break
    await store.close()

    assert pause < 0.005


async def test_closing_writes_what_is_pending_and_later_calls_say_closed(path, clock):
    store = a_store(path, clock)
    for number in range(1000):
        await store.settle(Settlement(an_anchor(str(number)), a_turn(number)))
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.settle(Settlement(None, a_turn()))

    again = a_store(path, clock)
    assert len(await again.turns(TurnQuery(limit=2000))) == 1000
    await again.close()


def a_writer(path, clock, on_written=lambda _anchors: None):
    return Writer(
        path=path,
        inode=open_file(path, clock()).inode,
        ttl_s=60.0,
        clock=clock,
        room_bytes=1_000_000,
        writer_id=1,
        on_written=on_written,
    )


@pytest.mark.parametrize("replaced", [False, True])
def test_a_damaged_file_is_moved_aside_but_not_the_one_that_another_process_has_begun_in_its_place(
    path, clock, replaced
):
    writer = a_writer(path, clock)
    if replaced:
        path.rename(path.with_name("aside"))
        path.write_bytes(b"of another process")
    writer.lose(StoreError("damaged"))
    writer.close()

    assert path.exists() is replaced
    assert any(".damaged-" in file.name for file in path.parent.iterdir()) is not replaced


def test_whoever_waits_for_a_commit_hears_of_it_last(path, clock):
    """What is still unwritten is older than what a caller has just had written, and must not be found instead of it."""
    heard = []
    writer = a_writer(path, clock, lambda anchors: heard.extend(anchor.key for anchor in anchors))
    settled, decided = an_anchor("a"), an_anchor("a", at=9.0)
    writer.behind([Rows(anchor=(settled, pack(settled)))])
    writer.now(Rows(anchor=(decided, pack(decided))), heard.append)
    writer.close()

    assert heard == [key("a"), key("a"), None]


async def test_a_file_that_is_removed_while_running_is_an_error_not_silence(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.05)
    store = a_store(path, clock)
    path.unlink()

    with pytest.raises(StoreError, match="removed or replaced"):
        await settle_for_ever(store)
    # It says so once more where a row was lost in the meantime.
    with contextlib.suppress(StoreError):
        await store.close()


async def test_what_is_settled_between_decisions_is_in_the_file_soon(path, clock, monkeypatch):
    # Nothing but what is handed in wakes the thread.
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 1000.0)
    store = a_store(path, clock)
    for number in range(1, 11):
        await store.settle(Settlement(None, a_turn(number)))
        await store.decide(an_anchor(f"d{number}"), EMPTY_PLAN)
        await store.settle(Settlement(None, a_turn(number + 100)))
        # At times the next one comes while the thread has still to look, at others when it has looked.
        if number % 3:
            await until(partial(lambda rows: rows_in(path, "turns") == rows, 2 * number))
    await until(lambda: rows_in(path, "turns") == 20)
    await store.close()


async def test_a_full_disk_is_a_store_error_and_the_file_stays_whole(path):
    code = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        async def main(path):
            store = a_store(Path(path))
            await store.decide(an_anchor("before"), EMPTY_PLAN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
            failed = 0
            for number in range(400):
                try:
                    plan = a_plan(os.urandom(4000).hex())
                    await store.decide(an_anchor(f"k{number}", plan=plan), plan)
                except StoreError:
                    failed += 1
            assert (await store.anchors([key("before")]))[0] is not None
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await store.decide(an_anchor("after"), EMPTY_PLAN)
            await store.close()
            print(failed)
        asyncio.run(main(sys.argv[1]))
    """
    (failed,) = finished(run_beside(code, path))

    assert int(failed) > 100
    store = a_store(path)
    assert None not in await store.anchors([key("before"), key("k0"), key("after")])
    await store.close()


async def test_a_failed_write_behind_is_told_at_the_next_call(path):
    code = """
        import resource, signal
        from tests.stores.test_sqlite_writer import settle_for_ever
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        async def main(path):
            store = a_store(Path(path))
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            await store.settle(Settlement(None, a_turn(label="x" * 100_000)))
            try:
                await settle_for_ever(store)
            except StoreError:
                print("told")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await store.settle(Settlement(None, a_turn()))
            await store.close()
        asyncio.run(main(sys.argv[1]))
    """
    assert finished(run_beside(code, path)) == ["told"]


async def test_a_file_that_another_process_holds_locked_costs_the_patience_and_no_more(path, clock):
    store = a_store(path, clock, patience_s=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    before = time.monotonic()
    with pytest.raises(StoreError, match=r"no commit within 0\.1 s"):
        await store.decide(an_anchor("a"), EMPTY_PLAN)
    assert time.monotonic() - before < 4.0
    # Reading goes on all the while.
    assert await store.anchors([key("b")]) == [None]

    other.execute("COMMIT")
    other.close()
    patient = a_store(path, clock)
    await patient.decide(an_anchor("b"), EMPTY_PLAN)
    await store.close()
    # The commit that nobody waited for any more was made all the same.
    assert await patient.anchors([key("a"), key("b")]) == [an_anchor("a"), an_anchor("b")]
    await patient.close()


async def test_a_report_waits_longer_for_a_busy_file_than_a_call_does(path, clock):
    store = a_store(path, clock, patience_s=0.05)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    await store.settle(Settlement(None, a_turn(7)))
    asyncio.get_running_loop().call_later(0.5, other.execute, "COMMIT")

    (turn,) = await store.turns(TurnQuery())

    assert turn.turn == 7
    other.close()
    await store.close()


async def test_rows_that_wait_for_a_slow_disk_are_bounded(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._MOST_WAITING", 50)
    store = a_store(path, clock)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await store.settle(Settlement(None, a_turn(0)))
    await asyncio.sleep(1.0)
    # The first row is with the waiting commit; fifty more may wait behind it.
    for number in range(1, 51):
        await store.settle(Settlement(None, a_turn(number)))
    with pytest.raises(StoreError, match="50 rows wait for a slow disk"):
        await store.settle(Settlement(None, a_turn(51)))
    other.execute("COMMIT")
    other.close()
    assert len(await store.turns(TurnQuery())) == 51
    await store.close()
