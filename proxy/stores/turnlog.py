"""Turns in memory, in the order of their calls, with the sessions' sums kept up to date."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest

from proxy.ledger.records import Turn
from proxy.ledger.store import SessionSummary, TurnQuery

Key = tuple[float, str, int]
"""Start, session, turn number: a call. Storing the same call again replaces its row."""


def key_of(turn: Turn) -> Key:
    """What identifies a call among all rows; also the order of reports."""
    return (turn.at, turn.session, turn.turn)


def size_of(turn: Turn) -> int:
    """About how many bytes of memory a row takes; measured on rows with 0–20 tools, decisions and named results."""
    texts = sum(map(len, turn.decisions)) + len(turn.label) + len(turn.session)
    named = len(turn.decisions) + len(turn.by_tool) + len(turn.edits) + len(turn.new_edits) + len(turn.largest)
    return 1100 + texts + 100 * named


def summarise(session: str, turns: Iterable[Turn]) -> SessionSummary | None:
    """One session's line from all its rows; None without a call of the client's."""
    rows = sorted((turn for turn in turns if turn.turn), key=key_of)
    if not rows:
        return None
    newest = rows[-1]
    return SessionSummary(
        session=session,
        label=next((row.label for row in reversed(rows) if row.label), ""),
        model=newest.model,
        upstream=newest.upstream,
        turns=len(rows),
        first_at=rows[0].at,
        last_at=newest.at,
        input_tokens=sum(row.usage.input_tokens or 0 for row in rows),
        removed_tokens=sum(row.spared_tokens for row in rows),
    )


class TurnLog:
    """Rows bounded by number, bytes and age; the oldest go first, a few more than needed at a time."""

    def __init__(self, *, most: int, room_bytes: int, ttl_s: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._room = room_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._rows: dict[Key, tuple[Turn, int, float]] = {}
        self._order: list[Key] = []
        self._sessions: dict[str, list[Key]] = {}
        self._lines: dict[str, SessionSummary] = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def held_bytes(self) -> int:
        """About how many bytes the rows take."""
        return self._held_bytes

    def add(self, turn: Turn, expires: float | None = None) -> None:
        """Keep the row for the log's life, or until `expires` (Unix seconds); the same call again replaces its row."""
        key, size_bytes = key_of(turn), size_of(turn)
        self._lines.pop(turn.session, None)
        known = self._rows.get(key)
        self._rows[key] = (turn, size_bytes, self._clock() + self._ttl_s if expires is None else expires)
        self._held_bytes += size_bytes - (known[1] if known else 0)
        if known is None:
            insort(self._order, key)
            insort(self._sessions.setdefault(turn.session, []), key)
        if len(self._rows) > self._most or self._held_bytes > self._room:
            self._drop_oldest(1 + len(self._rows) // 16)

    def find(self, query: TurnQuery) -> list[Turn]:
        """Newest first."""
        keys = self._sessions.get(query.session, []) if query.session else self._order
        end = len(keys) if query.before is None else bisect_left(keys, (query.before, "", -1))
        found: list[Turn] = []
        for index in range(end - 1, -1, -1):
            if len(found) >= query.limit or keys[index][0] < query.since:
                break
            turn, _, expires = self._rows[keys[index]]
            if self._alive(expires):
                found.append(turn)
        return found

    def sessions(self, limit: int) -> list[SessionSummary]:
        """The sessions with the newest calls, newest first."""
        self.sweep(1000)
        newest = nlargest(max(0, limit), self._sessions, key=lambda session: self._sessions[session][-1])
        lines = (self._line(session) for session in newest)
        return [line for line in lines if line is not None]

    def sweep(self, steps: int) -> None:
        """Remove what is too old among the `steps` oldest rows."""
        over = 0
        for key in self._order[:steps]:
            if self._alive(self._rows[key][2]):
                break
            over += 1
        self._drop_oldest(over)

    def _line(self, session: str) -> SessionSummary | None:
        line = self._lines.get(session) or summarise(session, self._living(session))
        if line is not None:
            self._lines[session] = line
        return line

    def _living(self, session: str) -> Iterator[Turn]:
        for key in self._sessions[session]:
            turn, _, expires = self._rows[key]
            if self._alive(expires):
                yield turn

    def _alive(self, expires: float) -> bool:
        now = self._clock()
        return now < expires <= now + 2 * self._ttl_s

    def _drop_oldest(self, count: int) -> None:
        for key in self._order[:count]:
            self._held_bytes -= self._rows.pop(key)[1]
            self._lines.pop(key[1], None)
            keys = self._sessions[key[1]]
            # A session's oldest key is first in its own list too.
            keys.pop(0)
            if not keys:
                del self._sessions[key[1]]
        del self._order[:count]
