"""The one thread that writes to the sqlite store's file, so that no commit ever runs on the event loop.

What may be written behind gathers here and is committed every 50 ms or 256 rows; what a caller waits for is committed at
once, together with everything that was handed in before it. Waking the thread costs the loop the interpreter for a while:
who hands in something while the thread is to look anyway leaves it asleep. Between commits the thread removes what is
too old or too much, a few hundred rows at a time, so that a waiting commit never waits long.
"""

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from math import inf
from pathlib import Path

from proxy.errors import StoreError
from proxy.ledger.records import Anchor
from proxy.stores.sealed import PLAIN, Sealing
from proxy.stores.sqlite_file import as_store_error, connect, is_damage, move_aside
from proxy.stores.sqlite_rows import Pen, Rows
from proxy.stores.sqlite_sweep import remove_some

BEHIND_S = 0.05
BEHIND_ROWS = 256
_MOST_WAITING = 20_000
"""Rows written behind that may wait while the disk is slow; more are refused, so that memory stays bounded."""
_BUSY_S = 5.0
_SWEEP_EVERY_S = 2.0
_SWEEP_STEPS = 20

Done = Callable[[StoreError | None], None]
"""Called on the writer's thread when the commit is through, or with what went wrong."""


class _Word(Enum):
    """What the thread is woken for."""

    SOON = auto()
    NOW = auto()
    STOP = auto()


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
        self._on_written = on_written
        self._connection = connect(path, _BUSY_S)
        self._pen = Pen(self._connection, writer_id=writer_id, ttl_s=ttl_s, sealing=sealing)
        self._lock = threading.Lock()
        self._waiting: list[Rows] = []
        self._told: list[Done] = []
        """Of the rows that somebody waits for: each has one."""
        self._wake: queue.SimpleQueue[_Word] = queue.SimpleQueue()
        self._looks = False
        """Whether the thread looks within BEHIND_S for what waits: then nobody has to wake it for that."""
        self._looks_at = inf
        """Monotonic time of that, which only the thread sets; `inf` for none."""
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
            before, looks = len(self._waiting), self._looks
            if before < _MOST_WAITING:
                self._waiting += rows
                self._looks = True
        if before >= _MOST_WAITING:
            raise StoreError(f"sqlite store {self._path}: {before} rows wait for a slow disk; no more are kept")
        if not looks:
            self._wake.put(_Word.SOON)
        if before < BEHIND_ROWS <= before + len(rows):
            self._wake.put(_Word.NOW)

    def now(self, rows: Rows, done: Done) -> None:
        """Write at once, behind everything that waits; `done` hears the end."""
        self.check()
        with self._lock:
            self._waiting.append(rows)
            self._told.append(done)
        self._wake.put(_Word.NOW)

    def check(self) -> None:
        """Raise once the file is gone, damaged or closed, for ever."""
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Write what waits and end the thread; blocks until then. Raises the StoreError of a last failed write."""
        if self._thread.is_alive():
            self._wake.put(_Word.STOP)
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
            if self._looks_at <= time.monotonic():
                self._looks, self._looks_at = False, inf
        return batch, told

    def _pause(self) -> bool:
        """Wait until there is something to write and its time has come; True when it is time to stop."""
        deadline = time.monotonic() + _SWEEP_EVERY_S
        while True:
            try:
                word = self._wake.get(timeout=max(0.0, min(deadline, self._looks_at) - time.monotonic()))
            except queue.Empty:
                return False
            match word:
                case _Word.SOON:
                    self._looks_at = time.monotonic() + BEHIND_S
                case _Word.NOW:
                    deadline = 0.0
                case _Word.STOP:
                    return True

    def _write(self, batch: list[Rows], told: list[Done]) -> None:
        if not batch:
            return
        error = self._lost
        if error is None:
            try:
                self._pen.commit(batch, self._clock())
            except (sqlite3.Error, OSError, ValueError, OverflowError) as cause:
                error = self._failed(cause)
        if error is not None and len(told) < len(batch):
            self._failure = error
        # First, so that whoever waited finds nothing older than what is written.
        self._on_written([rows.anchor[0] for rows in batch if rows.anchor is not None])
        for done in told:
            done(error)

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
