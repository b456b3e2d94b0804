"""The one thread that writes to the sqlite store's file, so that no commit ever runs on the event loop.

What may be written behind gathers here and is committed every 50 ms or 256 rows; what a caller waits for is committed at
once, together with everything that was handed in before it. Between commits the thread removes what is too old or too
much, a few hundred rows at a time, so that a waiting commit never waits long.
"""

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from proxy.conversation.edit import Plan
from proxy.errors import StoreError
from proxy.ledger.originals import MOST_SESSION_BYTES, Original
from proxy.ledger.records import Anchor, Turn
from proxy.stores.sealed import PLAIN, Sealing
from proxy.stores.sqlite_file import BLOB, as_store_error, connect, is_damage, move_aside
from proxy.stores.sqlite_sweep import remove_some

BEHIND_S = 0.05
BEHIND_ROWS = 256
_MOST_WAITING = 20_000
"""Rows written behind that may wait while the disk is slow; more are refused, so that memory stays bounded."""
_BUSY_S = 5.0
_SPARE_S = 60.0
"""A plan outlives its anchors by so much (at most a sixteenth of a life): so calls that follow on each other renew it once."""
_SWEEP_EVERY_S = 2.0
_SWEEP_STEPS = 20
# Columns are summed: this many times the most that any column holds still fits into SQLite's 64 bits.
_MOST_INTEGER = 2**40
_PUT_ANCHOR = "INSERT OR REPLACE INTO anchors (key, writer, expires, packed) VALUES (?, ?, ?, ?)"
_PUT_TURN = (
    "INSERT OR REPLACE INTO turns (session, at, turn, expires, label, model, upstream, input_tokens, removed_tokens,"
    " packed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Something to write, in one transaction with its neighbours."""

    anchor: tuple[Anchor, bytes] | None = None
    """With its stored form: what cannot be packed is refused where it is handed in, and spoils no other's commit."""
    plan: Plan | None = None
    turn: tuple[Turn, bytes] | None = None
    originals: tuple[Original, ...] = ()
    """Of the turn's conversation."""
    learned: tuple[str, bytes] | None = None


Done = Callable[[StoreError | None], None]
"""Called on the writer's thread when the commit is through, or with what went wrong."""


class _Stop:
    pass


class Writer:
    """Owns one connection. `on_written` hears of the anchors of every commit, on the writer's thread."""

    def __init__(
        self,
        *,
        path: Path,
        inode: int,
        ttl_s: float,
        clock: Callable[[], float],
        room_bytes: int,
        writer_id: int,
        on_written: Callable[[Sequence[Anchor]], None],
        sealing: Sealing = PLAIN,
    ) -> None:
        self._path = path
        self._inode = inode
        self._ttl_s = ttl_s
        self._clock = clock
        self._room_bytes = room_bytes
        self._id = writer_id
        self._on_written = on_written
        self._sealing = sealing
        self._connection = connect(path, _BUSY_S)
        self._lock = threading.Lock()
        self._waiting: list[Rows] = []
        self._told: list[Done] = []
        """Of the rows that somebody waits for: each has one."""
        self._wake: queue.SimpleQueue[float | _Stop] = queue.SimpleQueue()
        self._failure: StoreError | None = None
        self._lost: StoreError | None = None
        self._swept_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="pruning-proxy-sqlite-writer", daemon=True)
        self._thread.start()

    def behind(self, rows: Sequence[Rows]) -> None:
        """Write soon. Raises the StoreError of an earlier write behind, once: what it held is lost."""
        self.check()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        with self._lock:
            before = len(self._waiting)
            if before < _MOST_WAITING:
                self._waiting += rows
        if before >= _MOST_WAITING:
            raise StoreError(f"sqlite store {self._path}: {before} rows wait for a slow disk; no more are kept")
        if before == 0:
            self._wake.put(BEHIND_S)
        if before < BEHIND_ROWS <= before + len(rows):
            self._wake.put(0.0)

    def now(self, rows: Rows, done: Done) -> None:
        """Write at once, behind everything that waits; `done` hears the end."""
        self.check()
        with self._lock:
            self._waiting.append(rows)
            self._told.append(done)
        self._wake.put(0.0)

    def check(self) -> None:
        """Raise once the file is gone, damaged or closed, for ever."""
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Write what waits and end the thread; blocks until then. Raises the StoreError of a last failed write."""
        if self._thread.is_alive():
            self._wake.put(_Stop())
            self._thread.join()
        # Whoever is told holds this writer: together they would stay, with all that a store knows, until a collection.
        self._on_written = lambda _anchors: None
        failure, self._failure = self._failure, None
        if failure:
            raise failure

    def _run(self) -> None:
        stop = False
        while not stop:
            stop = self._pause()
            self._write(*self._taken())
            self._sweep()
        with self._lock:
            self._lost = self._lost or StoreError(f"sqlite store {self._path}: closed")
        # What came in meanwhile hears of it.
        self._write(*self._taken())
        self._connection.close()

    def _taken(self) -> tuple[list[Rows], list[Done]]:
        with self._lock:
            batch, told = self._waiting, self._told
            self._waiting, self._told = [], []
        return batch, told

    def _pause(self) -> bool:
        """Wait until there is something to write and its time has come; True when it is time to stop."""
        deadline = time.monotonic() + _SWEEP_EVERY_S
        while True:
            try:
                word = self._wake.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return False
            if isinstance(word, _Stop):
                return True
            deadline = min(deadline, time.monotonic() + word)

    def _write(self, batch: list[Rows], told: list[Done]) -> None:
        if not batch:
            return
        error = self._lost
        if error is None:
            try:
                self._commit(batch)
            except (sqlite3.Error, OSError, ValueError, OverflowError) as cause:
                error = self._failed(cause)
        if error is not None and len(told) < len(batch):
            self._failure = error
        # First, so that whoever waited finds nothing older than what is written.
        self._on_written([rows.anchor[0] for rows in batch if rows.anchor is not None])
        for done in told:
            done(error)

    def _commit(self, batch: list[Rows]) -> None:
        execute, many, expires = self._connection.execute, self._connection.executemany, self._expires()
        anchors: list[tuple[Any, ...]] = []
        turns: list[tuple[Any, ...]] = []
        for rows in batch:
            if rows.anchor is not None:
                anchor, packed = rows.anchor
                anchors.append((BLOB(anchor.key), self._id, expires, BLOB(packed)))
            if rows.turn is not None:
                turns.append(_columns(*rows.turn, expires))
        execute("BEGIN IMMEDIATE")
        many(_PUT_ANCHOR, anchors)
        many(_PUT_TURN, turns)
        for rows in batch:
            if rows.anchor is not None and rows.anchor[0].plan_id:
                self._put_plan(rows.anchor[0].plan_id, rows.plan, expires)
            if rows.turn is not None and rows.originals:
                self._put_originals(rows.turn[0].session, rows.originals, expires)
            if rows.learned is not None:
                name, value = rows.learned
                execute("INSERT OR REPLACE INTO learned VALUES (?, ?, ?)", (name, expires, value))
        execute("COMMIT")

    def _put_plan(self, plan_id: bytes, plan: Plan | None, expires: float) -> None:
        """Keep the plan for another life; with its content where it is new."""
        execute, ends = self._connection.execute, expires + min(_SPARE_S, self._ttl_s / 16)
        if plan is None:
            execute("UPDATE plans SET expires = ? WHERE plan_id = ? AND expires < ?", (ends, BLOB(plan_id), expires))
            return
        # With a key, a plan of that id may lie here that this key does not open, or that was written without one.
        known = not self._sealing.seals and (
            execute("UPDATE plans SET expires = ? WHERE plan_id = ?", (ends, BLOB(plan_id))).rowcount
        )
        if not known:
            values = (BLOB(plan_id), ends, BLOB(self._sealing.pack_plan(plan_id, plan)))
            execute("INSERT OR REPLACE INTO plans VALUES (?, ?, ?)", values)

    def _put_originals(self, session: str, originals: tuple[Original, ...], expires: float) -> None:
        execute = self._connection.execute
        for original in originals:
            packed = self._sealing.pack_original(session, original)
            execute(
                "INSERT OR REPLACE INTO originals (session, id, expires, packed) VALUES (?, ?, ?, ?)",
                (session, BLOB(original.id), expires, BLOB(packed)),
            )
        held = execute("SELECT sum(length(packed)) FROM originals WHERE session = ?", (session,)).fetchone()[0]
        if held <= MOST_SESSION_BYTES:
            return
        # Everything older than the row at which the newest ones fill the room.
        execute(
            "DELETE FROM originals WHERE session = :session AND seq <= (SELECT max(seq) FROM (SELECT seq,"
            " sum(length(packed)) OVER (ORDER BY seq DESC) AS held FROM originals WHERE session = :session)"
            " WHERE held > :room)",
            {"session": session, "room": MOST_SESSION_BYTES},
        )

    def _expires(self) -> float:
        return self._clock() + self._ttl_s

    def _failed(self, cause: Exception) -> StoreError:
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        error = as_store_error(self._path, "writing", cause)
        if isinstance(cause, sqlite3.Error) and is_damage(cause):
            self.lose(error)
        return error

    def lose(self, error: StoreError) -> None:
        """Give the file up: damaged. It is moved aside, unless another process did so already; opening anew starts fresh."""
        self._lost = error
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                move_aside(self._path, self._clock())

    def _sweep(self) -> None:
        if self._lost or time.monotonic() - self._swept_at < _SWEEP_EVERY_S:
            return
        try:
            if not self._still_there():
                self._lost = StoreError(f"sqlite store {self._path}: the file was removed or replaced")
                return
            for _ in range(_SWEEP_STEPS):
                if not remove_some(self._connection, self._clock(), self._ttl_s, self._room_bytes) or self._waiting:
                    break
        except (sqlite3.Error, OSError) as cause:
            self._failure = self._failed(cause)
        self._swept_at = time.monotonic()

    def _still_there(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False


def _columns(turn: Turn, packed: bytes, expires: float) -> tuple[Any, ...]:
    return (
        turn.session,
        turn.at,
        turn.turn,
        expires,
        turn.label,
        turn.model,
        turn.upstream,
        min(turn.usage.input_tokens or 0, _MOST_INTEGER),
        min(turn.removed_tokens, _MOST_INTEGER),
        BLOB(packed),
    )
