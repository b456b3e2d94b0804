"""The ledger on Redis: one state for replicas behind any load balancer.

Keys, all with an expiry, all under the schema's version, so that programs of two schemas run side by side during an
upgrade and each sees only its own:

    pp1:a:<16 bytes>   an anchor          pp1:p:<16 bytes>   a plan, by its content
    pp1:t:<session>    hash: a session's rows, field = start and turn number, at most `most_rows`
    pp1:s              sorted set: sessions by the start of their newest call, at most `most_sessions`
    pp1:l:<name>       a learned value
    pp1:o:<session>    hash: what a session's edits replaced, see redis_originals

The server's clock ends a key's life, so replicas whose clocks differ agree. Only a session's rows carry the Unix time of
their end in front, by the writer's clock, since they live in one key. The number of anchors follows from calls within
the ttl (about 500 bytes each); where that is too much, let the server evict (`maxmemory-policy volatile-lru`): a lost
anchor costs an estimate, not a call.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from redis.exceptions import RedisError

from proxy.conversation.edit import EMPTY_PLAN, Plan
from proxy.errors import Unstorable
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn
from proxy.ledger.store import SessionSummary, Settlement, TurnQuery
from proxy.stores.codec import pack, unpack_turn
from proxy.stores.memory import MIB, plan_bytes
from proxy.stores.redis_asking import Asking, Command
from proxy.stores.redis_client import client_for
from proxy.stores.redis_originals import fields_of, newest_by_id, opened, too_much
from proxy.stores.redis_url import RedisTarget
from proxy.stores.sealed import PLAIN, Sealing
from proxy.stores.shelf import Shelf
from proxy.stores.turnlog import key_of, summarise

PREFIX = b"pp1:"
"""1 is the schema: a change that older programs cannot read gets the next number."""
_ANCHOR, _PLAN, _ROWS, _SESSIONS = (PREFIX + name for name in (b"a:", b"p:", b"t:", b"s"))
_LEARNED, _ORIGINALS = PREFIX + b"l:", PREFIX + b"o:"
_END = struct.Struct(">d")
_FIELD = struct.Struct(">dq")
_OFF_LOOP_BYTES = 128 * 1024
"""Plans above this are packed and unpacked on a thread: they would take the loop for more than a millisecond."""
_SESSIONS_AT_ONCE = 8
_REPORT_TIMEOUT_S = 3.0
_TRIM_EVERY = 16
"""Calls between two looks at the bounds, which may be passed by so much."""


class RedisStore:
    """Fulfils `Ledger`; connects at the first call. StoreError when no answer comes within the target's `timeout_s`."""

    def __init__(
        self,
        target: RedisTarget,
        *,
        ttl_s: float,
        clock: Callable[[], float],
        most_rows: int = 2000,
        most_sessions: int = 5000,
        sealing: Sealing = PLAIN,
    ) -> None:
        self._target, self._sealing = target, sealing
        self._ttl_s = ttl_s
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._clock = clock
        self._timeout_s = target.timeout_s
        self._most_rows = most_rows
        self._most_sessions = most_sessions
        self._client, self._sentinels = client_for(target)
        self._asking = Asking(self._client, self._timeout_s, together=target.kind != "cluster")
        self._plans: Shelf[bytes, Plan] = Shelf(most=2048, room_bytes=24 * MIB, ttl_s=ttl_s, clock=clock)
        self._lines: Shelf[str, tuple[tuple[float, int], SessionSummary]] = Shelf(
            most=most_sessions, room_bytes=most_sessions, ttl_s=ttl_s, clock=clock
        )
        self._settled = 0

    async def anchors(self, keys: Sequence[bytes]) -> list[Anchor | None]:
        """See Ledger: one MGET; on Cluster one per slot, all at once."""
        if not keys:
            return []
        names = [_ANCHOR + key for key in keys]
        if self._target.kind == "cluster":
            async with self._asking.bounded("anchors"):
                values = await self._client.mget_nonatomic(names)
        else:
            [values] = await self._asking.run("anchors", [("MGET", *names)])
        return [self._sealing.unpack_anchor(key, value) for key, value in zip(keys, values, strict=True)]

    async def plan(self, plan_id: bytes) -> Plan | None:
        """See Ledger; the empty id is the empty plan."""
        if not plan_id:
            return EMPTY_PLAN
        plan = self._plans.get(plan_id)
        if plan is not None:
            return plan
        async with self._asking.bounded("plan"):
            packed = await self._client.get(_PLAN + plan_id)
        if packed is None:
            return None
        large, read = len(packed) > _OFF_LOOP_BYTES, self._sealing.unpack_plan
        plan = await asyncio.to_thread(read, plan_id, packed) if large else read(plan_id, packed)
        if plan is not None:
            self._plans.put(plan_id, plan, plan_bytes(plan))
        return plan

    async def decide(self, anchor: Anchor, plan: Plan) -> None:
        """See Ledger: one round trip."""
        commands: list[Command] = [self._set(_ANCHOR + anchor.key, self._sealing.pack_anchor(anchor))]
        if anchor.plan_id:
            size_bytes, write, plan_id = plan_bytes(plan), self._sealing.pack_plan, anchor.plan_id
            large = size_bytes > _OFF_LOOP_BYTES
            packed = await asyncio.to_thread(write, plan_id, plan) if large else write(plan_id, plan)
            commands.insert(0, self._set(_PLAN + plan_id, packed))
            self._plans.put(plan_id, plan, size_bytes)
        await self._asking.run("decide", commands)

    async def settle(self, *calls: Settlement) -> None:
        """See Ledger: one round trip, now and then a second one that removes what is too much."""
        if len(calls) == 1:
            await self._settle(calls[0])
            return
        done = await asyncio.gather(*map(self._settle, calls), return_exceptions=True)
        failures = [one for one in done if isinstance(one, BaseException)]
        if failures:
            # Rather that of a lost store than that of one odd call.
            raise min(failures, key=lambda failure: isinstance(failure, Unstorable))

    async def _settle(self, call: Settlement) -> None:
        turn, originals = call.turn, call.originals
        commands = await self._originals(turn.session, originals) if originals else []
        commands += self._row(turn)
        for anchor in (call.anchor, *call.others):
            if anchor is not None:
                commands += self._again(anchor)
        self._settled += 1
        trim = self._settled % _TRIM_EVERY == 0
        if trim:
            commands.append(("ZREMRANGEBYRANK", _SESSIONS, 0, -self._most_sessions - 1))
            commands.append(("HLEN", _rows_key(turn.session)))
        answers = await self._asking.run("settle", commands)
        over = too_much(answers[2]) if originals else []
        if over or (trim and answers[-1] > self._most_rows):
            async with self._asking.bounded("settle"):
                if over:
                    await self._client.hdel(_rows_key(turn.session, _ORIGINALS), *over)
                if trim and answers[-1] > self._most_rows:
                    await self._remove_oldest(turn.session, answers[-1])

    async def turns(self, query: TurnQuery) -> list[Turn]:
        """See Ledger. Reads whole sessions, newest first, until no older one can hold a row that is asked for."""
        if query.limit <= 0:
            return []
        sessions = [(query.session, float("inf"))] if query.session else await self._newest_sessions(-1)
        found: list[Turn] = []
        for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
            some = sessions[start : start + _SESSIONS_AT_ONCE]
            newest_left = some[0][1]
            if newest_left < query.since or (len(found) == query.limit and newest_left < found[-1].at):
                break
            for rows in (await self._rows([session for session, _ in some])).values():
                recent = (row for row, _ in rows if row.at >= query.since)
                found += [row for row in recent if query.before is None or row.at < query.before]
            found = sorted(found, key=key_of, reverse=True)[: query.limit]
        return found

    async def sessions(self, limit: int) -> list[SessionSummary]:
        """See Ledger. A session is summed anew only when it has a new row."""
        if limit <= 0:
            return []
        newest = await self._newest_sessions(limit - 1)
        pipeline = self._client.pipeline(transaction=False)
        for session, _ in newest:
            pipeline.hlen(_rows_key(session))
        async with self._asking.bounded("sessions", _REPORT_TIMEOUT_S):
            counts = await pipeline.execute() if newest else []
        states = {session: (last_at, count) for (session, last_at), count in zip(newest, counts, strict=True)}
        known = {session: self._lines.get(session) for session in states}
        stale = [session for session, line in known.items() if line is None or line[0] != states[session]]
        for start in range(0, len(stale), _SESSIONS_AT_ONCE):
            for session, rows in (await self._rows(stale[start : start + _SESSIONS_AT_ONCE])).items():
                self._sum(session, states[session], rows)
        lines = [self._lines.get(session) for session in states]
        return [line[1] for line in lines if line is not None]

    async def originals(self, session: str, ids: Sequence[bytes]) -> list[Original | None]:
        """See Ledger."""
        name, now, sealing = _rows_key(session, _ORIGINALS), self._clock(), self._sealing
        async with self._asking.bounded("originals", _REPORT_TIMEOUT_S):
            fields = newest_by_id(await self._client.hkeys(name))
            known = [place for place in ids if place in fields]
            values = await self._client.hmget(name, [fields[place] for place in known]) if known else []
        found = dict(zip(known, values, strict=True))
        return await asyncio.to_thread(
            lambda: [opened(session, place, found.get(place), sealing, now) for place in ids]
        )

    async def learned(self, name: str) -> bytes | None:
        """See Ledger."""
        async with self._asking.bounded("learned"):
            return self._sealing.unpack_learned(name, await self._client.get(_LEARNED + name.encode()))

    async def learn(self, name: str, value: bytes) -> None:
        """See Ledger."""
        async with self._asking.bounded("learn"):
            await self._client.set(_LEARNED + name.encode(), self._sealing.pack_learned(name, value), px=self._ttl_ms)

    async def close(self) -> None:
        """Let the connections go; nothing is pending."""
        for client in (self._client, *self._sentinels):
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await client.aclose()

    def _set(self, name: bytes, value: bytes) -> Command:
        return "SET", name, value, "PX", self._ttl_ms

    def _again(self, anchor: Anchor) -> list[Command]:
        """An anchor whose plan is stored."""
        commands = [self._set(_ANCHOR + anchor.key, self._sealing.pack_anchor(anchor))]
        if anchor.plan_id:
            commands.append(("PEXPIRE", _PLAN + anchor.plan_id, self._ttl_ms))
            self._plans.renew(anchor.plan_id)
        return commands

    def _row(self, turn: Turn) -> list[Command]:
        name, end = _rows_key(turn.session), _END.pack(self._clock() + self._ttl_s)
        return [
            ("HSET", name, _FIELD.pack(turn.at, turn.turn), end + pack(turn)),
            ("PEXPIRE", name, self._ttl_ms),
            ("ZADD", _SESSIONS, "GT", turn.at, turn.session),
            ("PEXPIRE", _SESSIONS, self._ttl_ms),
        ]

    async def _originals(self, session: str, originals: Sequence[Original]) -> list[Command]:
        """In front of all others: the third one's answer tells what there is now."""
        packed = partial(fields_of, session, originals, self._sealing, now=self._clock(), ttl_s=self._ttl_s)
        large = sum(len(original.text) for original in originals) > _OFF_LOOP_BYTES
        fields = await asyncio.to_thread(packed) if large else packed()
        name = _rows_key(session, _ORIGINALS)
        return [
            ("HSET", name, *chain.from_iterable(fields.items())),
            ("PEXPIRE", name, self._ttl_ms),
            ("HKEYS", name),
        ]

    async def _remove_oldest(self, session: str, rows: int) -> None:
        """Bring a session back under its bound, with a sixteenth to spare so that this stays rare."""
        name = _rows_key(session)
        fields = sorted(await self._client.hkeys(name), key=_FIELD.unpack)
        over = fields[: max(0, rows - self._most_rows + self._most_rows // 16)]
        if over:
            await self._client.hdel(name, *over)

    async def _newest_sessions(self, last: int) -> list[tuple[str, float]]:
        async with self._asking.bounded("sessions", _REPORT_TIMEOUT_S):
            pairs = await self._client.zrevrange(_SESSIONS, 0, last, withscores=True)
        return [(session.decode(), at) for session, at in pairs]

    async def _rows(self, sessions: list[str]) -> dict[str, list[tuple[Turn, float]]]:
        """The living rows of these sessions, each with the Unix time of its end; unpacked off the event loop."""
        pipeline = self._client.pipeline(transaction=False)
        for session in sessions:
            pipeline.hgetall(_rows_key(session))
        async with self._asking.bounded("rows", _REPORT_TIMEOUT_S):
            answers = await pipeline.execute()
        now = self._clock()
        return await asyncio.to_thread(
            lambda: {session: _living(answer.values(), now) for session, answer in zip(sessions, answers, strict=True)}
        )

    def _sum(self, session: str, state: tuple[float, int], rows: list[tuple[Turn, float]]) -> None:
        line = summarise(session, (row for row, _ in rows))
        if line is None:
            self._lines.drop(session)
        else:
            # True until its first row's life is over.
            self._lines.put(session, (state, line), 1, min(end for _, end in rows))


def _rows_key(session: str, kind: bytes = _ROWS) -> bytes:
    return kind + session.encode("utf-8", "surrogatepass")


def _living(values: Iterable[bytes], now: float) -> list[tuple[Turn, float]]:
    dated = (
        (unpack_turn(value[_END.size :]), _END.unpack_from(value)[0]) for value in values if len(value) > _END.size
    )
    return [(row, end) for row, end in dated if row is not None and end > now]
