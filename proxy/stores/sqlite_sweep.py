"""What goes from the sqlite store's file by itself, in steps small enough that a waiting commit never waits long."""

import sqlite3
from itertools import chain
from math import ceil

from proxy.stores.sqlite_file import TURNS

_ROWS = 200
_SHARE, _MOST_ROWS = 0.05, 400
"""Of each table, the most that goes in one step where there is too much."""
_NUMBERED = (("originals",), TURNS, ("anchors",))
"""Tables whose rows are numbered in the order of writing; of several that hold the same, the older rows first."""


def remove_some(connection: sqlite3.Connection, now: float, ttl_s: float, room_bytes: int) -> int:
    """One step of removal: what is too old, then what is too much. The number of rows that went.

    `now`: Unix time; `ttl_s`: life of a row; `room_bytes`: of the whole file.
    """
    # Far in the future: written while the clock was wrong; it must not stay for as long as the clock was off.
    dead = {"now": now, "late": now + 2 * ttl_s, "rows": _ROWS}
    removed = 0
    for table in chain.from_iterable(_NUMBERED):
        # In the order of writing, hence of expiry: the dead stand in front.
        removed += connection.execute(
            f"DELETE FROM {table} WHERE seq IN"  # noqa: S608 (a table of ours)
            f" (SELECT seq FROM (SELECT seq, expires FROM {table} ORDER BY seq"
            " LIMIT :rows) WHERE expires <= :now OR expires > :late)",
            dead,
        ).rowcount
    for end in (
        "DELETE FROM plans WHERE rowid IN (SELECT rowid FROM plans WHERE expires <= :now LIMIT :rows)",
        # An anchor that stays may name it: it only gets an end that is not so far ahead.
        "UPDATE plans SET expires = :late WHERE rowid IN (SELECT rowid FROM plans WHERE expires > :late LIMIT :rows)",
    ):
        removed += connection.execute(end, dead).rowcount
    connection.execute("DELETE FROM learned WHERE expires <= :now OR expires > :late", dead)
    return removed or (_remove_oldest(connection) if _used_bytes(connection) > room_bytes else 0)


def _used_bytes(connection: sqlite3.Connection) -> int:
    used = _first(connection, "PRAGMA page_count") - _first(connection, "PRAGMA freelist_count")
    return used * _first(connection, "PRAGMA page_size")


def _remove_oldest(connection: sqlite3.Connection) -> int:
    """The same share of each table, so that all of them reach back as far: what is left of a call is left whole."""
    rows = {tables: sum(_numbered_rows(connection, table) for table in tables) for tables in _NUMBERED}
    rows[("plans",)] = _first(connection, "SELECT count(*) FROM plans")
    share = min(_SHARE, _MOST_ROWS / max(1, *rows.values()))
    removed = 0
    for tables, count in rows.items():
        left = ceil(share * count)
        for table in tables:
            order = "expires" if table == "plans" else "seq"
            gone = connection.execute(
                f"DELETE FROM {table} WHERE rowid IN"  # noqa: S608 (a table of ours)
                f" (SELECT rowid FROM {table} ORDER BY {order} LIMIT {left})"
            ).rowcount
            left -= gone
            removed += gone
    return removed


def _numbered_rows(connection: sqlite3.Connection, table: str) -> int:
    """About how many rows a table has, from its first and its last: one question for both would read them all."""
    ends = f"(SELECT max(seq) FROM {table}) - (SELECT min(seq) FROM {table})"  # noqa: S608 (a table of ours)
    return _first(connection, f"SELECT {ends} + 1")


def _first(connection: sqlite3.Connection, statement: str) -> int:
    """The one number that a statement gives; 0 for NULL."""
    return connection.execute(statement).fetchone()[0] or 0
