"""The database file: who may read it, its schema, and what happens when it is damaged or out of reach."""

import os
import sqlite3
import stat
import time
from operator import attrgetter

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores.codec import pack
from proxy.stores.sealed import PLAIN
from proxy.stores.sqlite_file import MIGRATIONS, connect
from proxy.stores.sqlite_rows import Pen, Rows
from tests.stores.conftest import TTL_S, a_turn, an_anchor, key
from tests.stores.files import a_store, an_older_file, finished, run_beside

pytestmark = pytest.mark.anyio


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


async def test_a_file_with_damaged_roots_is_moved_aside_when_it_is_opened(path, clock):
    store = a_store(path, clock)
    await store.settle(Settlement(an_anchor("a"), a_turn()))
    await store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))

    fresh = a_store(path, clock)
    assert fresh.opening.moved_aside is not None
    assert await fresh.anchors([key("a")]) == [None]
    await fresh.close()


@pytest.mark.parametrize("junk", [b"this is no database" * 500, bytes(8192)])
async def test_a_damaged_file_is_moved_aside_whole_and_a_fresh_one_takes_its_place(path, junk):
    await a_store(path).close()
    path.write_bytes(junk)
    store = a_store(path)
    aside = store.opening.moved_aside

    assert aside.read_bytes() == junk
    assert str(aside) in store.note
    await store.decide(an_anchor("a"), EMPTY_PLAN)
    await store.close()
    again = a_store(path)
    assert again.opening.moved_aside is None
    assert await again.anchors([key("a")]) == [an_anchor("a")]
    await again.close()


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


async def test_a_file_of_a_newer_program_is_refused_and_left_alone(path):
    await a_store(path).close()
    with sqlite3.connect(path) as writer:
        writer.execute("PRAGMA user_version=99")
    writer.close()
    before = path.read_bytes()

    with pytest.raises(StoreError, match=f"schema version is 99, this program knows up to {len(MIGRATIONS)}"):
        a_store(path)
    assert path.read_bytes() == before


STRANGERS = [
    (b"notes of years\n" * 500, "no database of ours"),
    (b"SQLite format 3\0" + b"\xff" * 8000, "another program's database"),
]


@pytest.mark.parametrize(("content", "reason"), STRANGERS)
async def test_a_file_that_holds_something_else_is_refused_and_left_alone(path, content, reason):
    path.write_bytes(content)
    path.chmod(0o644)

    with pytest.raises(StoreError, match=reason):
        a_store(path)
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_that_cannot_be_read_is_not_held_open(path, monkeypatch):
    path.write_bytes(b"no database" * 1000)
    made, real = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: made.append(real(*args, **options)) or made[-1])

    with pytest.raises(sqlite3.DatabaseError):
        connect(path, busy_s=0.1)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[-1].execute("SELECT 1")


async def test_a_private_file_of_another_kind_is_refused_and_left_alone(tmp_path):
    key = tmp_path / "id_ed25519"
    key.write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    key.chmod(0o600)

    with pytest.raises(StoreError, match="no database of ours"):
        a_store(key)
    assert key.read_bytes() == b"-----BEGIN OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
async def test_another_programs_database_is_refused_and_left_alone(path, mode):
    with sqlite3.connect(path) as writer:
        writer.execute(f"PRAGMA journal_mode={mode}")
        writer.execute("CREATE TABLE bookmarks (url TEXT)")
    writer.close()
    path.chmod(0o644)
    before = path.read_bytes()

    with pytest.raises(StoreError, match="another program's database"):
        a_store(path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_another_programs_database_is_known_by_its_unwritten_pages_too(path):
    """All that a program has just written may still be in its WAL."""
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE bookmarks (url TEXT)")

    with pytest.raises(StoreError, match="another program's database"):
        a_store(path)
    writer.close()


async def test_a_file_of_an_older_program_migrates_and_keeps_its_rows(path, clock, monkeypatch):
    from proxy.stores import sqlite_file

    known = len(MIGRATIONS)
    old = a_store(path, clock)
    await old.decide(an_anchor("a"), EMPTY_PLAN)
    await old.close()
    step = ("ALTER TABLE learned ADD COLUMN note TEXT NOT NULL DEFAULT ''",)
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, step))

    new = a_store(path, clock)
    assert await new.anchors([key("a")]) == [an_anchor("a")]
    await new.close()
    reader = sqlite3.connect(path)
    assert reader.execute("PRAGMA user_version").fetchone() == (known + 1,)
    assert "note" in {row[1] for row in reader.execute("PRAGMA table_info(learned)")}
    reader.close()


async def test_calls_in_an_older_file_are_reported_with_those_that_follow(path, clock):
    older = [a_turn(number, session=session) for number in (1, 2) for session in ("both", "older")]
    an_older_file(path, 2, [[Rows(turn=(turn, pack(turn))) for turn in older]], clock.now)
    store = a_store(path, clock)
    newer = [a_turn(number, session=session) for number in (3, 4) for session in ("both", "newer")]
    await store.settle(*[Settlement(None, turn) for turn in newer])

    assert await store.turns(TurnQuery()) == sorted([*older, *newer], key=attrgetter("at", "session"), reverse=True)
    assert [turn.turn for turn in await store.turns(TurnQuery(session="both", limit=3))] == [4, 3, 2]
    assert [turn.turn for turn in await store.turns(TurnQuery(since=older[2].at, before=newer[2].at))] == [3, 3, 2, 2]
    lines = [(line.session, line.turns, line.first_at) for line in await store.sessions(10)]
    assert lines == [("newer", 2, newer[0].at), ("both", 4, older[0].at), ("older", 2, older[0].at)]
    await store.close()


async def test_a_call_that_is_kept_again_is_kept_once(path, clock):
    store = a_store(path, clock)
    for cost in (1.0, 2.0):
        await store.settle(Settlement(None, a_turn(cost=cost)))

    assert [turn.cost for turn in await store.turns(TurnQuery())] == [2.0]
    await store.close()


async def test_a_process_of_the_version_before_goes_on_writing_to_a_file_that_migrates(path, clock):
    an_older_file(path, 2, [], clock.now)
    connection = connect(path, 5.0)
    pen = Pen(connection, writer_id=1, ttl_s=TTL_S, sealing=PLAIN)
    turns = [a_turn(number) for number in (1, 2)]
    pen.commit([Rows(turn=(turns[0], pack(turns[0])))], clock.now)
    store = a_store(path, clock)
    pen.commit([Rows(turn=(turns[1], pack(turns[1])))], clock.now)
    connection.close()

    assert await store.turns(TurnQuery()) == turns[::-1]
    await store.close()


async def test_processes_that_make_the_same_file_at_the_same_moment_all_open_it(path):
    code = """
        import time
        while time.time() < float(sys.argv[2]):
            pass
        async def main(path):
            store = a_store(Path(path))
            await store.decide(an_anchor(sys.argv[3]), EMPTY_PLAN)
            await store.close()
        asyncio.run(main(sys.argv[1]))
    """
    start = time.time() + 2.0
    for process in [run_beside(code, path, start, f"k{number}") for number in range(4)]:
        finished(process)

    store = a_store(path)
    assert None not in await store.anchors([key(f"k{number}") for number in range(4)])
    await store.close()
