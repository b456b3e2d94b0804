"""What is written to the sqlite store's file, as rows of its tables. sqlite3.Error goes to the caller."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from proxy.conversation.edit import Plan
from proxy.ledger.originals import MOST_SESSION_BYTES, Original
from proxy.ledger.records import Anchor, Turn
from proxy.stores.sealed import Sealing
from proxy.stores.sqlite_file import BLOB

_SPARE_S = 60.0
"""A plan outlives its anchors by so much (at most a sixteenth of a life): so calls that follow on each other renew it once."""
# Columns are summed: this many times the most that any column holds still fits into SQLite's 64 bits.
_MOST_INTEGER = 2**40
_LEFT_SHARE = 8
"""Of the room that a conversation's originals left, this part is filled before they are summed again: as many processes
may write of one conversation and stay within its bound."""
_MOST_LEFT = 2048
_PUT_ANCHOR = "INSERT OR REPLACE INTO anchors (key, writer, expires, packed) VALUES (?, ?, ?, ?)"
_PUT_TURN = (
    "INSERT OR REPLACE INTO turns (session, at, turn, expires, label, model, upstream, input_tokens, removed_tokens,"
    " packed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# Anchors that were written while the clock was ahead end later.
_RENEW_PLAN = "UPDATE plans SET expires = max(expires, ?) WHERE plan_id = ?"
_PUT_PLAN = (
    "INSERT INTO plans (plan_id, expires, packed) VALUES (?, ?, ?) ON CONFLICT (plan_id)"
    " DO UPDATE SET expires = max(expires, excluded.expires), packed = excluded.packed"
)
_PUT_ORIGINAL = "INSERT OR REPLACE INTO originals (session, id, expires, packed) VALUES (?, ?, ?, ?)"


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Something to write, in one transaction with its neighbours."""

    anchor: tuple[Anchor, bytes] | None = None
    """With its stored form: what cannot be packed is refused where it is handed in, and spoils no other's commit."""
    plan: Plan | None = None
    turn: tuple[Turn, bytes] | None = None
    originals: tuple[Original, ...] = ()
    """Of the turn's conversation."""
    learned: tuple[str, bytes] | None = None


class Pen:
    """Writes through one connection, in the name of the store `writer_id`."""

    def __init__(self, connection: sqlite3.Connection, *, writer_id: int, ttl_s: float, sealing: Sealing) -> None:
        self._connection = connection
        self._id = writer_id
        self._ttl_s = ttl_s
        self._sealing = sealing
        self._left: dict[str, int] = {}
        """By conversation, bytes of originals that may be added before they are summed; longest unused first."""

    def commit(self, batch: Sequence[Rows], now: float) -> None:
        """All of them in one transaction; `now`: Unix time. After an error the transaction may be open still."""
        execute, many, expires = self._connection.execute, self._connection.executemany, now + self._ttl_s
        anchors: list[tuple[Any, ...]] = []
        turns: list[tuple[Any, ...]] = []
        originals: list[tuple[str, list[tuple[Any, ...]]]] = []
        for rows in batch:
            if rows.anchor is not None:
                anchor, packed = rows.anchor
                anchors.append((BLOB(anchor.key), self._id, expires, BLOB(packed)))
            if rows.turn is not None:
                turns.append(_columns(*rows.turn, expires))
                if rows.originals:
                    session = rows.turn[0].session
                    # Before the file is locked, which others of this machine may write to.
                    originals.append((session, [self._original(session, one, expires) for one in rows.originals]))
        execute("BEGIN IMMEDIATE")
        many(_PUT_ANCHOR, anchors)
        many(_PUT_TURN, turns)
        for session, found in originals:
            self._put_originals(session, found)
        for rows in batch:
            if rows.anchor is not None and rows.anchor[0].plan_id:
                self._put_plan(rows.anchor[0].plan_id, rows.plan, expires)
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
        if self._sealing.seals or not execute(_RENEW_PLAN, (ends, BLOB(plan_id))).rowcount:
            execute(_PUT_PLAN, (BLOB(plan_id), ends, BLOB(self._sealing.pack_plan(plan_id, plan))))

    def _original(self, session: str, original: Original, expires: float) -> tuple[Any, ...]:
        return session, BLOB(original.id), expires, BLOB(self._sealing.pack_original(session, original))

    def _put_originals(self, session: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.executemany(_PUT_ORIGINAL, rows)
        left = self._left.pop(session, 0) - sum(len(packed) for *_, packed in rows)
        if left <= 0:
            left = self._make_room(session) // _LEFT_SHARE
        self._left[session] = left
        if len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]

    def _make_room(self, session: str) -> int:
        """Bytes that may be added; where there are too many, the oldest go first."""
        execute = self._connection.execute
        held: int = execute("SELECT sum(length(packed)) FROM originals WHERE session = ?", (session,)).fetchone()[0]
        if held <= MOST_SESSION_BYTES:
            return MOST_SESSION_BYTES - held
        # Everything older than the row at which the newest ones fill the room.
        execute(
            "DELETE FROM originals WHERE session = :session AND seq <= (SELECT max(seq) FROM (SELECT seq,"
            " sum(length(packed)) OVER (ORDER BY seq DESC) AS held FROM originals WHERE session = :session)"
            " WHERE held > :room)",
            {"session": session, "room": MOST_SESSION_BYTES},
        )
        return 0


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
        min(turn.spared_tokens, _MOST_INTEGER),
        BLOB(packed),
    )
