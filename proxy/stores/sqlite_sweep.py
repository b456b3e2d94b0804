"""What goes from the sqlite store's file by itself, in steps small enough that a waiting commit never waits long."""

import sqlite3

_ROWS = 200
_OLDEST = (("originals", "seq", 100), ("turns", "seq", 400), ("anchors", "seq", 200), ("plans", "expires", 20))
"""What goes together where there is too much: table, order, rows."""


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
    def pragma(name: str) -> int:
        value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    return (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")


def _remove_oldest(connection: sqlite3.Connection) -> int:
    removed = 0
    for table, order, rows in _OLDEST:
        removed += connection.execute(
            f"DELETE FROM {table} WHERE rowid IN"  # noqa: S608 (a table of ours)
            f" (SELECT rowid FROM {table} ORDER BY {order} LIMIT {rows})"
        ).rowcount
    return removed
