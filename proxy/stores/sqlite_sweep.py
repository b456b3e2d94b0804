"""What goes from the sqlite store's file by itself, in steps small enough that a waiting commit never waits long."""

import sqlite3
from math import ceil

_ROWS = 200
_SHARE, _MOST_ROWS = 0.05, 400
"""Of each table, the most that goes in one step where there is too much."""
_OLDEST = (
    ("originals", "seq", "max(seq) - min(seq) + 1"),
    ("turns", "seq", "max(seq) - min(seq) + 1"),
    ("anchors", "seq", "max(seq) - min(seq) + 1"),
    ("plans", "expires", "count(*)"),
)
"""Table, order of age, and about how many rows it has: of numbered ones that is known without reading them."""


def remove_some(connection: sqlite3.Connection, now: float, ttl_s: float, room_bytes: int) -> int:
    """One step of removal: what is too old, then what is too much. The number of rows that went.

    `now`: Unix time; `ttl_s`: life of a row; `room_bytes`: of the whole file.
    """
    # Far in the future: written while the clock was wrong; it must not stay for as long as the clock was off.
    dead = {"now": now, "late": now + 2 * ttl_s, "rows": _ROWS}
    removed = 0
    for table in ("anchors", "turns", "originals"):
        # Rows are numbered in the order of writing, hence of expiry: the dead stand in front.
        removed += connection.execute(
            f"DELETE FROM {table} WHERE seq IN"  # noqa: S608 (a table of ours)
            f" (SELECT seq FROM (SELECT seq, expires FROM {table} ORDER BY seq"
            " LIMIT :rows) WHERE expires <= :now OR expires > :late)",
            dead,
        ).rowcount
    removed += connection.execute(
        "DELETE FROM plans WHERE rowid IN (SELECT rowid FROM plans WHERE expires <= :now OR expires > :late"
        " LIMIT :rows)",
        dead,
    ).rowcount
    connection.execute("DELETE FROM learned WHERE expires <= :now OR expires > :late", dead)
    return removed or (_remove_oldest(connection) if _used_bytes(connection) > room_bytes else 0)


def _used_bytes(connection: sqlite3.Connection) -> int:
    used = _first(connection, "PRAGMA page_count") - _first(connection, "PRAGMA freelist_count")
    return used * _first(connection, "PRAGMA page_size")


def _remove_oldest(connection: sqlite3.Connection) -> int:
    """The same share of each table, so that all of them reach back as far: what is left of a call is left whole."""
    tables = [(table, order, _first(connection, f"SELECT {rows} FROM {table}")) for table, order, rows in _OLDEST]  # noqa: S608 (as above)
    share = min(_SHARE, _MOST_ROWS / max(1, *(rows for _, _, rows in tables)))
    removed = 0
    for table, order, rows in tables:
        removed += connection.execute(
            f"DELETE FROM {table} WHERE rowid IN"  # noqa: S608 (as above)
            f" (SELECT rowid FROM {table} ORDER BY {order} LIMIT {ceil(share * rows)})"
        ).rowcount
    return removed


def _first(connection: sqlite3.Connection, statement: str) -> int:
    """The one number that a statement gives; 0 for NULL."""
    return connection.execute(statement).fetchone()[0] or 0
