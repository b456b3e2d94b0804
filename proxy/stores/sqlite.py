"""The ledger in one SQLite file: survives restarts, shared by the processes of one machine.

Reads of the hot path run on the event loop, from memory where this process has seen the anchor, else by an index look-up
of some microseconds: WAL readers never wait for writers. Writes go to one thread (sqlite_writer), reports to another.
Memory is kept true to the file by row numbers: a replaced anchor gets a new, higher one, so each look-up first asks for
rows newer than the last it saw and forgets what other processes replaced.

With `synchronous=NORMAL` a commit survives the death of the process at any point; a power cut may take the last ones.
"""

import asyncio
import contextlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from operator import not_
from pathlib import Path
from typing import TypeVar

from proxy.conversation.edit import EMPTY_PLAN, Plan
from proxy.errors import StoreError, Unstorable
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn
from proxy.ledger.store import SessionSummary, Settlement, TurnQuery
from proxy.stores.codec import pack
from proxy.stores.memory import MIB, anchor_bytes
from proxy.stores.sealed import PLAIN, Sealing
from proxy.stores.shelf import Shelf
from proxy.stores.sqlite_file import BLOB, Opening, as_store_error, connect, find_anchors, is_damage, open_file
from proxy.stores.sqlite_reports import find_originals, find_turns, sum_sessions
from proxy.stores.sqlite_rows import Rows
from proxy.stores.sqlite_writer import Writer

T = TypeVar("T")

PATIENCE_S = 1.0
"""How long a call waits for its decision to be kept, unless `store.url` says otherwise; then it goes on without."""
_LOOP_BUSY_S = 0.004
"""A reader waits only while another process recovers or removes the WAL; on the event loop it may not wait longer."""
_UNHURRIED_S = 15.0
"""The patience of those for whom no call waits, reports and what is learned: a disk that is busy is not yet a lost one."""
_NEWS_AT_ONCE = 256
"""Rows of others looked at before one look-up; when more came, memory is cleared instead."""
_INFLATE_OFF_LOOP_BYTES = 128 * 1024
"""Stored plans above this are unpacked on a thread: they would take the loop for more than a millisecond."""


class SqliteStore:
    """Fulfils `Ledger`. The constructor opens the file and may take some milliseconds; StoreError when it cannot."""

    def __init__(
        self,
        path: Path,
        *,
        ttl_s: float,
        clock: Callable[[], float],
        room_bytes: int = 512 * MIB,
        patience_s: float = PATIENCE_S,
        sealing: Sealing = PLAIN,
    ) -> None:
        self.opening: Opening = open_file(path, clock())
        self._path = path
        self._sealing = sealing
        self._clock = clock
        self._patience_s = patience_s
        self._id = secrets.randbits(62)
        self._front: Shelf[bytes, Anchor] = Shelf(most=8192, room_bytes=8 * MIB, ttl_s=ttl_s, clock=clock)
        self._unwritten: dict[bytes, Anchor] = {}
        self._unwritten_lock = threading.Lock()
        self._reports_thread = ThreadPoolExecutor(1, "pruning-proxy-sqlite-reports")
        try:
            self._reader = connect(path, _LOOP_BUSY_S)
            self._seen = self._newest_seq()
            self._reports = connect(path, busy_s=5.0)
            self._writer = Writer(
                path=path,
                inode=self.opening.inode,
                ttl_s=ttl_s,
                clock=clock,
                room_bytes=room_bytes,
                writer_id=self._id,
                sealing=sealing,
                on_written=self._written,
            )
        except sqlite3.Error as error:
            raise as_store_error(path, "opening", error) from error

    @property
    def note(self) -> str:
        """What whoever runs this should know about the file as it was found; mostly empty."""
        aside = self.opening.moved_aside
        return f"the file was damaged and lies at {aside}; a fresh one took its place" if aside else ""

    async def anchors(self, keys: Sequence[bytes]) -> list[Anchor | None]:
        """See Ledger."""
        self._writer.check()
        # Without `_told`, which costs as much as all that is done here where nothing has to be looked up.
        try:
            # A first call finds nothing here, so that there is nothing to be forgotten.
            if any(map(self._front.__contains__, keys)):
                self._forget_replaced()
            found = self._front.get_all(keys)
            missing = list(compress(keys, map(not_, found)))
            read = self._look_up(missing) if missing else {}
        except sqlite3.Error as cause:
            raise self._error("reading", cause) from cause
        return [anchor or read.get(key) for key, anchor in zip(keys, found, strict=True)] if read else found

    async def plan(self, plan_id: bytes) -> Plan | None:
        """See Ledger; the empty id is the empty plan. Always read from the file: `Resilient` holds what calls use."""
        if not plan_id:
            return EMPTY_PLAN
        self._writer.check()
        with self._told("reading"):
            row = self._reader.execute("SELECT expires, packed FROM plans WHERE plan_id = ?", (plan_id,)).fetchone()
        if row is None or row[0] <= self._clock():
            return None
        packed, read = row[1], self._sealing.unpack_plan
        large = len(packed) > _INFLATE_OFF_LOOP_BYTES
        return await asyncio.to_thread(read, plan_id, packed) if large else read(plan_id, packed)

    async def decide(self, anchor: Anchor, plan: Plan) -> None:
        """See Ledger: committed when this returns; StoreError when that takes longer than `patience_s`."""
        rows = Rows(anchor=(anchor, self._sealing.pack_anchor(anchor)), plan=plan)
        await self._commit(rows, self._patience_s)
        self._front.put(anchor.key, anchor, anchor_bytes(anchor))

    async def settle(self, *calls: Settlement) -> None:
        """See Ledger: committed within about 50 ms; a StoreError of that commit is raised at the next call."""
        rows: list[Rows] = []
        odd: Unstorable | None = None
        for call in calls:
            try:
                self._pack(call, rows)
            except Unstorable as error:
                odd = error
        if rows:
            self._put(rows)
        # Last: rather a lost store than one odd call.
        if odd is not None:
            raise odd

    def _pack(self, call: Settlement, rows: list[Rows]) -> None:
        pack_anchor, anchor = self._sealing.pack_anchor, call.anchor
        kept = None if anchor is None else (anchor, pack_anchor(anchor))
        rows.append(Rows(anchor=kept, turn=(call.turn, pack(call.turn)), originals=tuple(call.originals)))
        if call.others:
            rows += [Rows(anchor=(other, pack_anchor(other))) for other in call.others]

    def _put(self, rows: Sequence[Rows]) -> None:
        anchors = [row.anchor[0] for row in rows if row.anchor is not None]
        with self._unwritten_lock:
            for anchor in anchors:
                self._unwritten[anchor.key] = anchor
        try:
            self._writer.behind(rows)
        except StoreError:
            self._written(anchors)
            raise
        for anchor in anchors:
            self._front.put(anchor.key, anchor, anchor_bytes(anchor))

    async def turns(self, query: TurnQuery) -> list[Turn]:
        """See Ledger."""
        await self._commit(Rows())
        return await self._report(lambda now: find_turns(self._reports, query, now))

    async def sessions(self, limit: int) -> list[SessionSummary]:
        """See Ledger."""
        await self._commit(Rows())
        return await self._report(lambda now: sum_sessions(self._reports, limit, now))

    async def originals(self, session: str, ids: Sequence[bytes]) -> list[Original | None]:
        """See Ledger."""
        await self._commit(Rows())
        return await self._report(lambda now: find_originals(self._reports, session, ids, now, self._sealing))

    async def learned(self, name: str) -> bytes | None:
        """See Ledger."""
        self._writer.check()
        with self._told("reading"):
            row = self._reader.execute("SELECT expires, value FROM learned WHERE name = ?", (name,)).fetchone()
        return self._sealing.unpack_learned(name, row[1]) if row is not None and row[0] > self._clock() else None

    async def learn(self, name: str, value: bytes) -> None:
        """See Ledger."""
        await self._commit(Rows(learned=(name, self._sealing.pack_learned(name, value))))

    async def close(self) -> None:
        """See Ledger; StoreError when the last rows could not be written."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._reports_thread.shutdown()
        with self._told("closing"):
            self._reader.close()
            self._reports.close()
        self._writer.close()

    async def _commit(self, rows: Rows, within_s: float = _UNHURRIED_S) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[StoreError | None] = loop.create_future()

        def done(error: StoreError | None) -> None:
            # The loop may have ended while the disk was slow; then nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(error))

        self._writer.now(rows, done)
        try:
            async with asyncio.timeout(within_s):
                failure = await future
        except TimeoutError as error:
            raise StoreError(f"sqlite store {self._path}: no commit within {within_s} s") from error
        if failure is not None:
            raise failure

    async def _report(self, read: Callable[[float], T]) -> T:
        def told() -> T:
            with self._told("reading"):
                return read(self._clock())

        return await asyncio.get_running_loop().run_in_executor(self._reports_thread, told)

    @contextlib.contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as cause:
            raise self._error(doing, cause) from cause

    def _error(self, doing: str, cause: sqlite3.Error) -> StoreError:
        error = as_store_error(self._path, doing, cause)
        if is_damage(cause):
            self._writer.lose(error)
        return error

    def _written(self, anchors: Sequence[Anchor]) -> None:
        with self._unwritten_lock:
            for anchor in anchors:
                if self._unwritten.get(anchor.key) is anchor:
                    del self._unwritten[anchor.key]

    def _newest_seq(self) -> int:
        row = self._reader.execute("SELECT seq FROM sqlite_sequence WHERE name = 'anchors'").fetchone()
        return row[0] if row else 0

    def _forget_replaced(self) -> None:
        news = self._reader.execute(
            "SELECT seq, key, writer FROM anchors WHERE seq > ? ORDER BY seq LIMIT ?", (self._seen, _NEWS_AT_ONCE)
        ).fetchall()
        if not news:
            return
        if len(news) == _NEWS_AT_ONCE:
            self._seen = self._newest_seq()
            self._front.clear()
            return
        self._seen = news[-1][0]
        for _, key, writer in news:
            if writer != self._id:
                self._front.drop(key)

    def _look_up(self, keys: list[bytes]) -> dict[bytes, Anchor]:
        # What has no room in memory may still be on its way to the file; asked in this order, it is in one of the two.
        found = {key: anchor for key in keys if (anchor := self._unwritten.get(key)) is not None}
        keys = [key for key in keys if key not in found] if found else keys
        if not keys:
            return found
        rows = self._reader.execute(find_anchors(len(keys)), list(map(BLOB, keys))).fetchall()
        now = self._clock()
        for key, expires, packed in rows:
            anchor = self._sealing.unpack_anchor(key, packed) if expires > now else None
            if anchor is not None:
                found[key] = anchor
                self._front.put(key, anchor, anchor_bytes(anchor), expires)
        return found
