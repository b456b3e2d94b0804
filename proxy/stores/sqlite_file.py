"""The database file of the sqlite store: where it lies, who may read it, its schema, and what happens when it is damaged.

Rules: the file is 0600 and so are its WAL and shared-memory files (SQLite copies the mode). `user_version` is the schema's
version; a file of a newer program is refused, an older one migrates, a damaged one is moved aside and a fresh one takes
its place. Any other file is refused and never touched, whatever it holds: a path is easily mistyped.
"""

import contextlib
import os
import sqlite3
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from proxy.errors import StoreError

APPLICATION_ID = 0x70727078
"""Written into the header ("prpx"), so that we never take another program's database for ours."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # AUTOINCREMENT: a replaced row gets a number that no row ever had, so other processes see that it changed.
        """CREATE TABLE anchors (seq INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE,
           writer INTEGER NOT NULL, expires REAL NOT NULL, packed BLOB NOT NULL)""",
        "CREATE TABLE plans (plan_id BLOB NOT NULL UNIQUE, expires REAL NOT NULL, packed BLOB NOT NULL)",
        "CREATE INDEX plans_by_expiry ON plans (expires)",
        """CREATE TABLE turns (seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, at REAL NOT NULL,
           turn INTEGER NOT NULL, expires REAL NOT NULL, label TEXT NOT NULL, model TEXT NOT NULL,
           upstream TEXT NOT NULL, input_tokens INTEGER NOT NULL, removed_tokens INTEGER NOT NULL,
           packed BLOB NOT NULL, UNIQUE (session, at, turn))""",
        "CREATE INDEX turns_by_at ON turns (at, session, turn)",
        "CREATE TABLE learned (name TEXT PRIMARY KEY, expires REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID",
    ),
    (
        """CREATE TABLE originals (seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, id BLOB NOT NULL,
           expires REAL NOT NULL, packed BLOB NOT NULL, UNIQUE (session, id))""",
    ),
    (
        # An index that begins with the session has a page to be written anew for nearly every row, one that begins
        # with the time for some sixty. Rows that are there already stay where they are until their lives are over.
        "ALTER TABLE turns RENAME TO turns_before",
        """CREATE TABLE turns (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, at REAL NOT NULL,
           turn INTEGER NOT NULL, expires REAL NOT NULL, label TEXT NOT NULL, model TEXT NOT NULL,
           upstream TEXT NOT NULL, input_tokens INTEGER NOT NULL, removed_tokens INTEGER NOT NULL,
           packed BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX turns_in_order ON turns (at, session, turn)",
    ),
)
"""Step n takes a file from version n to n+1. Steps are only ever added, and take no longer where a file is large."""

TURNS = ("turns_before", "turns")
"""Tables that hold calls, the older rows first; only the last one is written to."""

BLOB = bytearray
"""Type of what is given to a statement: of `bytes` sqlite3 asks for an adapter each time, which takes longer than a copy."""

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OPEN_TRIES = 20
_MAGIC = b"SQLite format 3\0"
_PAGE_SIZE, _OWNER = slice(16, 18), slice(68, 72)
"""Where a database's header has them (sqlite.org/fileformat2.html, section 1.3)."""
_STRANGER = "this is another program's database; name another file in store.url"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What was found when a file was opened; the caller logs it."""

    inode: int
    moved_aside: Path | None = None
    """Where the damaged file lies now, when there was one."""


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error says that the file itself is broken."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def as_store_error(path: Path, doing: str, error: BaseException) -> StoreError:
    """The house's error, without any value that stood in a statement."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    return StoreError(f"sqlite store {path}: {doing} failed: {why}")


def connect(path: Path, busy_s: float) -> sqlite3.Connection:
    """A connection in autocommit, usable from any thread (one at a time), that waits `busy_s` for another's lock."""
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA journal_size_limit=16777216")
    except sqlite3.Error:
        # The first statement reads the file's header: of a damaged file, nobody else has a connection to close.
        connection.close()
        raise
    return connection


@lru_cache(maxsize=64)
def find_anchors(count: int) -> str:
    """The statement that asks for so many keys."""
    marks = ",".join("?" * count)
    return f"SELECT key, expires, packed FROM anchors WHERE key IN ({marks})"  # noqa: S608 (only marks)


def open_file(path: Path, clock_s: float) -> Opening:
    """Make the file ready: made, private, in WAL mode, at this schema. `clock_s` names a damaged file moved aside.

    StoreError when the place cannot be written, the file is of a newer version or not this program's.
    """
    try:
        _refuse_strangers(path)
        _make(path)
        try:
            return _prepare(path, None)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        aside = move_aside(path, clock_s)
        _make(path)
        return _prepare(path, aside)
    except (OSError, sqlite3.Error) as error:
        raise as_store_error(path, "opening", error) from error


def move_aside(path: Path, clock_s: float) -> Path:
    """Rename the damaged file and its companions, which stay for whoever wants to look; nothing is deleted."""
    aside = path.with_name(f"{path.name}.damaged-{int(clock_s)}-{os.getpid()}")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def _refuse_strangers(path: Path) -> None:
    """StoreError for a file that holds something else, before anything is done to it."""
    try:
        with path.open("rb") as file:
            head, found = file.read(100), os.fstat(file.fileno())
    except FileNotFoundError:
        return
    if not head or head[_OWNER] == APPLICATION_ID.to_bytes(4):
        return
    if not head.startswith(_MAGIC):
        # So much is left of ours where its header is lost: the name, and that nobody else may read it.
        if path.suffix == ".db" and found.st_mode & 0o777 == 0o600:
            return
        raise StoreError(f"sqlite store {path}: this file is no database of ours; name another file in store.url")
    # One page without an owner: a database that nothing was written to yet, or whose tables are in its WAL, where `_migrate` sees them.
    if head[_OWNER] != bytes(4) or found.st_size > int.from_bytes(head[_PAGE_SIZE]):
        raise StoreError(f"sqlite store {path}: {_STRANGER}")


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _prepare(path: Path, aside: Path | None) -> Opening:
    inode = path.stat().st_ino
    connection = connect(path, busy_s=5.0)
    try:
        _to_wal(connection)
        connection.execute("BEGIN IMMEDIATE")
        _migrate(connection, path)
        connection.execute("COMMIT")
        _look_at(connection)
    finally:
        connection.close()
    return Opening(inode=inode, moved_aside=aside)


def _look_at(connection: sqlite3.Connection) -> None:
    """Reads the ends of every table and index, so that damage at their roots shows now; a whole check takes too long."""
    for look in ("seq", "key"):
        connection.execute(f"SELECT min({look}), max({look}) FROM anchors").fetchone()  # noqa: S608 (columns of ours)
    connection.execute("SELECT min(expires), max(expires), min(plan_id), max(plan_id) FROM plans").fetchone()
    for table in TURNS:
        connection.execute(f"SELECT min(at), max(at) FROM {table}").fetchone()  # noqa: S608 (tables of ours)
    connection.execute("SELECT count(*) FROM learned").fetchone()
    connection.execute("SELECT * FROM sqlite_sequence").fetchall()


def _to_wal(connection: sqlite3.Connection) -> None:
    # The switch to WAL does not wait for another process that switches at the same moment: SQLite answers "locked" at once.
    for tries_left in range(_OPEN_TRIES, -1, -1):
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if tries_left == 0 or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            time.sleep(0.05)
        else:
            return


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    filled = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    if filled and owner != APPLICATION_ID:
        raise StoreError(f"sqlite store {path}: {_STRANGER}")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"sqlite store {path}: its schema version is {version}, this program knows up to {len(MIGRATIONS)}; "
            "use the newer program, or name another file in store.url"
        )
    for step in MIGRATIONS[version:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
