"""What the file store promises beyond the contract: restarts, two processes, sudden death, damage, full and read-only disks."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.store import TurnQuery
from proxy.stores.sqlite import SqliteStore
from tests.stores.conftest import TTL_S, Clock, a_plan, a_turn, a_usage, an_anchor, key

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def a_store(path, clock=None, **changes):
    return SqliteStore(path, **{"ttl_s": TTL_S, "clock": clock or Clock(), **changes})


def run_beside(code, *arguments, **options):
    """Another Python process with the store's builders at hand."""
    head = "import asyncio, sys, time, os\nfrom tests.stores.test_sqlite import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finished(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.split()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


# Restarts and privacy


async def test_everything_survives_a_restart(path, clock):
    plan = a_plan("placeholder " * 1000)
    first = a_store(path, clock)
    await first.decide(an_anchor("a", plan=plan), plan)
    await first.settle(an_anchor("b", plan=plan, usage=a_usage()), a_turn())
    await first.learn("factor", b"1.1")
    await first.close()

    second = a_store(path, clock)
    assert await second.anchors([key("a"), key("b")]) == [
        an_anchor("a", plan=plan),
        an_anchor("b", plan=plan, usage=a_usage()),
    ]
    assert await second.plan(plan.plan_id()) == plan
    assert await second.turns(TurnQuery()) == [a_turn()]
    assert await second.learned("factor") == b"1.1"
    await second.close()


async def test_only_the_owner_may_read_the_files(path):
    path.touch(mode=0o644)
    store = a_store(path)
    await store.decide(an_anchor("a"), EMPTY_PLAN)

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob("state.db*")}
    await store.close()
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}


async def test_a_missing_directory_is_made_for_the_owner_alone(tmp_path):
    store = a_store(tmp_path / "new" / "deeper" / "state.db")
    await store.close()

    assert stat.S_IMODE((tmp_path / "new" / "deeper").stat().st_mode) == 0o700


# Writing behind


async def test_a_decision_is_in_the_file_when_decide_returns(path, clock):
    store = a_store(path, clock)
    await store.decide(an_anchor("a"), EMPTY_PLAN)

    with sqlite3.connect(path) as reader:
        count = reader.execute("SELECT count(*) FROM anchors").fetchone()[0]
    reader.close()
    await store.close()
    assert count == 1


async def test_a_settled_call_is_in_the_file_soon_and_readable_at_once(path, clock):
    store = a_store(path, clock)
    await store.settle(an_anchor("a"), a_turn())
    assert await store.anchors([key("a")]) == [an_anchor("a")]

    await asyncio.sleep(0.3)
    reader = sqlite3.connect(path)
    count = reader.execute("SELECT count(*) FROM turns").fetchone()[0]
    reader.close()
    await store.close()
    assert count == 1


async def test_the_event_loop_is_never_held_up_by_writing(path, clock):
    store = a_store(path, clock)
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
        await store.settle(an_anchor(str(number), plan=plan), a_turn(number))
        if number % 100 == 0:
            await store.decide(an_anchor(f"d{number}", plan=plan), plan)
        await asyncio.sleep(0)
    stop = True
    await watcher
    await store.close()
    assert longest < 0.005


async def test_closing_writes_what_is_pending_and_later_calls_say_closed(path, clock):
    store = a_store(path, clock)
    for number in range(1000):
        await store.settle(an_anchor(str(number)), a_turn(number))
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.settle(None, a_turn())

    again = a_store(path, clock)
    assert len(await again.turns(TurnQuery(limit=2000))) == 1000
    await again.close()


# Two processes


async def test_two_processes_on_one_file_see_each_others_anchors_at_once(path, clock):
    left, right = a_store(path, clock), a_store(path, clock)
    await left.decide(an_anchor("a", estimated=1), EMPTY_PLAN)
    assert (await right.anchors([key("a")]))[0].estimated == 1

    # Right now holds it in memory; left replaces it: memory must not win.
    await left.decide(an_anchor("a", estimated=2), EMPTY_PLAN)
    assert (await right.anchors([key("a")]))[0].estimated == 2
    await right.decide(an_anchor("a", estimated=3), EMPTY_PLAN)
    assert (await left.anchors([key("a")]))[0].estimated == 3
    await left.close()
    await right.close()


async def test_memory_is_dropped_when_another_process_wrote_very_much(path, clock):
    left, right = a_store(path, clock), a_store(path, clock)
    await right.decide(an_anchor("a", estimated=1), EMPTY_PLAN)
    await left.decide(an_anchor("a", estimated=2), EMPTY_PLAN)
    await asyncio.gather(*(left.decide(an_anchor(f"x{number}"), EMPTY_PLAN) for number in range(600)))

    assert (await right.anchors([key("a")]))[0].estimated == 2
    await left.close()
    await right.close()


async def test_two_real_processes_write_at_the_same_time_and_nothing_is_lost(path):
    code = """
        async def main(path, name):
            store = a_store(Path(path))
            for number in range(150):
                await store.decide(an_anchor(f"{name}{number}"), EMPTY_PLAN)
                await store.settle(an_anchor(f"{name}{number}", usage=a_usage()), a_turn(number, session=name))
            await store.close()
        asyncio.run(main(*sys.argv[1:]))
    """
    for process in [run_beside(code, path, "left"), run_beside(code, path, "right")]:
        finished(process)

    store = a_store(path)
    found = await store.anchors([key(f"{name}{number}") for name in ("left", "right") for number in range(150)])
    assert all(anchor is not None and anchor.usage == a_usage() for anchor in found)
    assert {line.session: line.turns for line in await store.sessions(9)} == {"left": 150, "right": 150}
    await store.close()


# Sudden death


async def test_a_process_killed_while_it_writes_leaves_a_whole_file_with_every_decision(path):
    code = """
        async def main(path):
            store = a_store(Path(path))
            for number in range(100_000):
                plan = a_plan(f"plan {number}")
                await store.decide(an_anchor(f"k{number}", plan=plan), plan)
                await store.settle(an_anchor(f"k{number}", plan=plan, usage=a_usage()), a_turn(number))
                print(number, flush=True)
        asyncio.run(main(sys.argv[1]))
    """
    process = run_beside(code, path)
    decided = [int(process.stdout.readline()) for _ in range(300)][-1]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    store = a_store(path)
    assert store.opening.moved_aside is None
    found = await store.anchors([key(f"k{number}") for number in range(decided + 1)])
    assert all(found)
    assert await store.plan(found[-1].plan_id) == a_plan(f"plan {decided}")
    await store.close()
    reader = sqlite3.connect(path)
    assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    reader.close()


# Damage


async def test_a_file_with_damaged_roots_is_moved_aside_when_it_is_opened(path, clock):
    store = a_store(path, clock)
    await store.settle(an_anchor("a"), a_turn())
    await store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))

    fresh = a_store(path, clock)
    assert fresh.opening.moved_aside is not None
    assert await fresh.anchors([key("a")]) == [None]
    await fresh.close()


@pytest.mark.parametrize("junk", [b"this is no database" * 500, b"SQLite format 3\0" + b"\xff" * 8000])
async def test_a_damaged_file_is_moved_aside_whole_and_a_fresh_one_takes_its_place(path, junk):
    path.write_bytes(junk)
    store = a_store(path)
    aside = store.opening.moved_aside

    assert aside.read_bytes() == junk
    assert str(aside) in store.note
    await store.decide(an_anchor("a"), EMPTY_PLAN)
    await store.close()
    assert a_store_reads(path) == 1


def a_store_reads(path):
    reader = sqlite3.connect(path)
    count = reader.execute("SELECT count(*) FROM anchors").fetchone()[0]
    reader.close()
    return count


async def test_damage_found_while_running_is_an_error_and_opening_anew_starts_fresh(path, clock):
    first = a_store(path, clock)
    for number in range(300):
        await first.settle(an_anchor(str(number)), a_turn(number))
    await first.close()
    store = a_store(path, clock)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))

    with pytest.raises(StoreError, match="malformed"):
        await store.anchors([key("7")])
    with pytest.raises(StoreError):
        await store.decide(an_anchor("a"), EMPTY_PLAN)
    await store.close()

    fresh = a_store(path, clock)
    await fresh.decide(an_anchor("a"), EMPTY_PLAN)
    assert await fresh.anchors([key("a"), key("7")]) == [an_anchor("a"), None]
    await fresh.close()
    assert len(list(path.parent.glob("state.db.damaged-*"))) >= 1


async def test_a_file_that_is_removed_while_running_is_an_error_not_silence(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.05)
    store = a_store(path, clock)
    path.unlink()
    await asyncio.sleep(0.4)

    with pytest.raises(StoreError, match="removed or replaced"):
        await store.settle(None, a_turn())
    await store.close()


# Disks


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
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        async def main(path):
            store = a_store(Path(path))
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            await store.settle(None, a_turn(label="x" * 100_000))
            await asyncio.sleep(0.4)
            try:
                await store.settle(None, a_turn())
            except StoreError:
                print("told")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await store.settle(None, a_turn())
            await store.close()
        asyncio.run(main(sys.argv[1]))
    """
    assert finished(run_beside(code, path)) == ["told"]


async def test_a_place_that_cannot_be_written_is_a_store_error(tmp_path):
    await a_store(tmp_path / "there" / "state.db").close()
    for place, mode in ((tmp_path / "there", 0o555), (tmp_path / "there" / "state.db", 0o444), (tmp_path, 0o555)):
        place.chmod(mode)
    code = """
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        for place in ("there/state.db", "there/other.db", "new/state.db"):
            try:
                a_store(Path(sys.argv[1]) / place)
            except StoreError as error:
                print("refused" if "opening failed" in str(error) else error)
    """
    try:
        assert finished(run_beside(code, tmp_path)) == ["refused"] * 3
    finally:
        tmp_path.chmod(0o755)
        (tmp_path / "there").chmod(0o755)


# Schema


async def test_a_file_of_a_newer_program_is_refused_and_left_alone(path):
    await a_store(path).close()
    with sqlite3.connect(path) as writer:
        writer.execute("PRAGMA user_version=99")
    writer.close()
    before = path.read_bytes()

    with pytest.raises(StoreError, match="schema version is 99, this program knows up to 1"):
        a_store(path)
    assert path.read_bytes() == before


async def test_another_programs_database_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as writer:
        writer.execute("CREATE TABLE bookmarks (url TEXT)")
    writer.close()

    with pytest.raises(StoreError, match="another program's database"):
        a_store(path)
    reader = sqlite3.connect(path)
    assert reader.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    reader.close()


async def test_a_file_of_an_older_program_migrates_and_keeps_its_rows(path, clock, monkeypatch):
    from proxy.stores import sqlite_file

    old = a_store(path, clock)
    await old.decide(an_anchor("a"), EMPTY_PLAN)
    await old.close()
    step = ("ALTER TABLE learned ADD COLUMN note TEXT NOT NULL DEFAULT ''",)
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, step))

    new = a_store(path, clock)
    assert new.opening.version_before == 1
    assert await new.anchors([key("a")]) == [an_anchor("a")]
    await new.close()
    reader = sqlite3.connect(path)
    assert reader.execute("PRAGMA user_version").fetchone() == (2,)
    assert "note" in {row[1] for row in reader.execute("PRAGMA table_info(learned)")}
    reader.close()


# Bounds


async def test_the_oldest_rows_go_when_the_file_is_over_its_room(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    store = a_store(path, clock, room_bytes=1_000_000)
    for number in range(3000):
        await store.settle(an_anchor(f"k{number}"), a_turn(number))
        if number % 100 == 0:
            plan = a_plan(os.urandom(2000).hex() * 2)
            await store.decide(an_anchor(f"p{number}", plan=plan), plan)
            await asyncio.sleep(0.03)
    await asyncio.sleep(0.3)

    turns = await store.turns(TurnQuery(limit=5000))
    await store.close()
    assert turns[0].turn == 2999
    assert 100 < len(turns) < 2500
    assert path.stat().st_size < 2_000_000


async def test_dead_rows_leave_the_file(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    store = a_store(path, clock)
    plan = a_plan("x")
    for number in range(300):
        await store.settle(an_anchor(f"k{number}"), a_turn(number))
    await store.decide(an_anchor("d", plan=plan), plan)
    await store.learn("factor", b"1")
    clock.now += TTL_S + 1
    await store.decide(an_anchor("alive"), EMPTY_PLAN)
    await asyncio.sleep(0.3)
    await store.close()

    reader = sqlite3.connect(path)
    counts = [
        reader.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("anchors", "plans", "turns", "learned")
    ]
    reader.close()
    assert counts == [1, 0, 0, 0]


async def test_rows_of_a_clock_that_was_far_ahead_do_not_stay_for_that_long(path, clock, monkeypatch):
    monkeypatch.setattr("proxy.stores.sqlite_writer._SWEEP_EVERY_S", 0.02)
    clock.now += 1e7
    store = a_store(path, clock)
    await store.decide(an_anchor("future"), EMPTY_PLAN)
    clock.now -= 1e7
    await store.decide(an_anchor("now"), EMPTY_PLAN)
    await asyncio.sleep(0.2)

    assert await store.anchors([key("future"), key("now")]) == [None, an_anchor("now")]
    await store.close()


async def test_equal_plans_are_stored_once_and_long_ones_small(path, clock):
    store = a_store(path, clock)
    plan = a_plan("the same line again\n" * 2000)
    for number in range(50):
        await store.decide(an_anchor(str(number), plan=plan), plan)
    await store.close()

    reader = sqlite3.connect(path)
    assert reader.execute("SELECT count(*), sum(length(packed)) < 2000 FROM plans").fetchone() == (1, 1)
    reader.close()
