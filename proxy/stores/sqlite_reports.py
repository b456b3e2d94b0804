"""What reports read from the sqlite store's file, on a thread and a connection of their own. sqlite3.Error goes to the caller."""

import sqlite3
from collections.abc import Sequence
from operator import itemgetter

from proxy.ledger.originals import Original
from proxy.ledger.records import Turn
from proxy.ledger.store import SessionSummary, TurnQuery
from proxy.stores.codec import unpack_turn
from proxy.stores.sealed import Sealing
from proxy.stores.sqlite_file import TURNS

_CALLS = " UNION ALL ".join(
    f"SELECT session, label, model, upstream, at, input_tokens, removed_tokens FROM {table}"  # noqa: S608 (tables of ours)
    " WHERE expires > :now AND turn > 0"
    for table in TURNS
)
# Beside one max(), SQLite takes the other columns from the row that holds the maximum; beside two of its kind, or a min(),
# from any of their rows (lang_select, section 2.5). So each has a query of its own.
_SUMS = f"""
    WITH calls AS ({_CALLS}),
    newest AS (SELECT session, model, upstream, max(at) AS last_at FROM calls GROUP BY session
        ORDER BY last_at DESC, session DESC LIMIT :limit),
    named AS (SELECT session, label, max(at) FROM calls WHERE label <> '' GROUP BY session),
    sums AS (SELECT session, count(*) AS turns, min(at) AS first_at, sum(input_tokens) AS input_tokens,
        sum(removed_tokens) AS removed_tokens FROM calls GROUP BY session)
    SELECT session, coalesce(label, ''), model, upstream, turns, first_at, last_at, input_tokens, removed_tokens
        FROM newest JOIN sums USING (session) LEFT JOIN named USING (session) ORDER BY last_at DESC, session DESC
"""  # noqa: S608 (a query of ours)


def find_turns(connection: sqlite3.Connection, query: TurnQuery, now: float) -> list[Turn]:
    """The rows that are asked for and alive at `now` (Unix time), newest first."""
    where = ["expires > ?", "at >= ?"]
    values: list[float | str] = [now, query.since]
    if query.before is not None:
        where.append("at < ?")
        values.append(query.before)
    if query.session:
        where.append("session = ?")
        values.append(query.session)
    limit = max(0, query.limit)
    rows: list[tuple[float, str, int, bytes]] = []
    for table in TURNS:
        rows += connection.execute(
            f"SELECT at, session, turn, packed FROM {table} WHERE {' AND '.join(where)}"  # noqa: S608 (words of ours)
            " ORDER BY at DESC, session DESC, turn DESC LIMIT ?",
            (*values, limit),
        )
    rows.sort(key=itemgetter(0, 1, 2), reverse=True)
    turns = (unpack_turn(packed) for *_, packed in rows[:limit])
    return [turn for turn in turns if turn is not None]


def find_originals(
    connection: sqlite3.Connection, session: str, ids: Sequence[bytes], now: float, sealing: Sealing
) -> list[Original | None]:
    """Those of a conversation that are alive at `now` (Unix time), in the order of `ids`."""
    rows = connection.execute("SELECT id, packed FROM originals WHERE session = ? AND expires > ?", (session, now))
    wanted = set(ids)
    found = {place: sealing.unpack_original(session, place, packed) for place, packed in rows if place in wanted}
    return [found.get(place) for place in ids]


def sum_sessions(connection: sqlite3.Connection, limit: int, now: float) -> list[SessionSummary]:
    """The sessions with the newest calls among the rows alive at `now` (Unix time), newest first."""
    rows = connection.execute(_SUMS, {"now": now, "limit": max(0, limit)}).fetchall()
    return [SessionSummary(**dict(zip(SessionSummary.__struct_fields__, row, strict=True))) for row in rows]
