"""A store whose calls never fail: while the real one is down, this process's own memory stands in for it.

Everything that this process writes goes to memory as well, so that a lost store costs only what other processes know.
The first failure opens the circuit: no later call touches the store, hence a frozen one costs one timeout and not one a
call. A task then opens it anew with growing pauses, tests it with a read and a write, gives it what was written
meanwhile (and the last writes before, which may have been under way), and only then lets calls through again.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import compress
from operator import not_
from typing import TypeVar

from proxy.conversation.edit import Plan
from proxy.errors import StoreError, Unstorable
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn
from proxy.ledger.store import Ledger, SessionSummary, Settlement, TurnQuery
from proxy.stores.memory import MIB, MemoryStore
from proxy.stores.sqlite import SqliteStore

T = TypeVar("T")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_WELL_AFTER_S = 60.0
"""A store that fails again sooner than this after it came back was not well: the pauses go on growing."""
_CLOSE_S = 2.0
_MOST_ROWS = 4096
_MOST_OWED = 4096
_UNDER_WAY = 256
_AT_ONCE = 64
_PROBE = "store.probe"

Owed = tuple[Anchor | None, Turn | None, tuple[bytes, ...]]
"""A write that the store has not got: a decision has no turn, a call that must not advance has no anchor.

Of the originals only the ids stand here: memory holds their texts, within its bound.
"""


class Resilient:
    """Fulfils `Ledger` without StoreError. SettingsError of the opener passes through at the start."""

    def __init__(
        self,
        opener: Callable[[], Ledger],
        *,
        ttl_s: float,
        clock: Callable[[], float],
        on_change: Callable[[bool, str], None],
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self._opener = opener
        self._on_change = on_change
        self._first_pause_s = self._pause_s = first_pause_s
        self._memory = MemoryStore(
            ttl_s=ttl_s, clock=clock, most_anchors=8192, most_turns=_MOST_ROWS, room_bytes=32 * MIB
        )
        self._ttl_s = ttl_s
        self._clock = clock
        self._rows: deque[tuple[Turn, float]] = deque(maxlen=_MOST_ROWS)
        self._owed: deque[Owed] = deque(maxlen=_MOST_OWED)
        self._under_way: deque[Owed] = deque(maxlen=_UNDER_WAY)
        self._owed_learned: dict[str, bytes] = {}
        self._recovery: asyncio.Task[None] | None = None
        self._primary: Ledger | None = None
        self._leaving: Ledger | None = None
        self._well_since = time.monotonic()
        self.failures = 0
        """Failed calls and failed attempts to come back, since the start."""
        self.note = ""
        """What whoever runs this should know about how the store was found; mostly empty."""
        try:
            self._use(opener())
        except StoreError as error:
            self._fail(error)

    @property
    def healthy(self) -> bool:
        """Whether calls reach the store."""
        return self._primary is not None

    async def anchors(self, keys: Sequence[bytes]) -> list[Anchor | None]:
        """See Ledger. What the store has lost and this process still knows is filled in."""
        store = self._reached()
        if store is None:
            return await self._memory.anchors(keys)
        try:
            found = await store.anchors(keys)
        except StoreError as error:
            self._failed(store, error)
            return await self._memory.anchors(keys)
        for place in compress(range(len(found)), map(not_, found)):
            found[place] = self._memory.anchor(keys[place])
        return found

    async def plan(self, plan_id: bytes) -> Plan | None:
        """See Ledger; what never changes is asked of memory first, and stays there: this process's anchors may name it."""
        plan = await self._memory.plan(plan_id)
        if plan is None and (plan := await self._ask(lambda store: store.plan(plan_id))) is not None:
            self._memory.keep_plan(plan_id, plan)
        return plan

    async def decide(self, anchor: Anchor, plan: Plan) -> None:
        """See Ledger; while the store is down, durable as long as this process lives."""
        with contextlib.suppress(Unstorable):
            await self._memory.decide(anchor, plan)
        self._owe((anchor, None, ()))
        await self._ask(lambda store: store.decide(anchor, plan))

    async def settle(self, *calls: Settlement) -> None:
        """See Ledger."""
        end = self._clock() + self._ttl_s
        for call in calls:
            anchor, turn, originals = call.anchor, call.turn, call.originals
            if anchor is not None:
                self._memory.keep_anchor(anchor)
            if originals:
                self._memory.keep_originals(turn.session, originals)
            self._rows.append((turn, end))
            self._owe((anchor, turn, tuple([original.id for original in originals]) if originals else ()))
            for other in call.others:
                self._memory.keep_anchor(other)
                self._owe((other, None, ()))
        store = self._reached()
        if store is not None:
            try:
                await store.settle(*calls)
            except StoreError as error:
                self._failed(store, error)

    async def originals(self, session: str, ids: Sequence[bytes]) -> list[Original | None]:
        """See Ledger. What the store has not and this process still knows is filled in."""
        here = await self._memory.originals(session, ids)
        found = await self._ask(lambda store: store.originals(session, ids)) or here
        return [one or own for one, own in zip(found, here, strict=True)]

    async def turns(self, query: TurnQuery) -> list[Turn]:
        """See Ledger; while the store is down, the rows of this process."""
        found = await self._ask(lambda store: store.turns(query))
        return await self._with_rows().turns(query) if found is None else found

    async def sessions(self, limit: int) -> list[SessionSummary]:
        """See Ledger; while the store is down, the sessions of this process."""
        found = await self._ask(lambda store: store.sessions(limit))
        return await self._with_rows().sessions(limit) if found is None else found

    async def learned(self, name: str) -> bytes | None:
        """See Ledger."""
        value = await self._ask(lambda store: store.learned(name))
        return await self._memory.learned(name) if value is None else value

    async def learn(self, name: str, value: bytes) -> None:
        """See Ledger."""
        with contextlib.suppress(Unstorable):
            await self._memory.learn(name, value)
        await self._ask(lambda store: store.learn(name, value))
        if not self.healthy:
            self._owed_learned[name] = value

    async def close(self) -> None:
        """See Ledger: in bounded time, also when the store does not answer."""
        if self._recovery is not None:
            self._recovery.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._recovery
        self._leaving = self._leaving or self._primary
        await self._let_go()

    def _with_rows(self) -> MemoryStore:
        """Memory with this process's rows in their order: bringing them there is dear, and mostly nobody ever asks."""
        while self._rows:
            self._memory.keep_turn(*self._rows.popleft())
        return self._memory

    def _owe(self, owed: Owed) -> None:
        (self._under_way if self._primary is not None else self._owed).append(owed)

    async def _ask(self, ask: Callable[[Ledger], Awaitable[T]]) -> T | None:
        """For what is no part of every call: those two do the same without a function and a coroutine more."""
        store = self._reached()
        if store is None:
            return None
        try:
            return await ask(store)
        except StoreError as error:
            self._failed(store, error)
        return None

    def _reached(self) -> Ledger | None:
        """The store; None while it is down, and on its way back."""
        if self._primary is None:
            self._come_back()
        return self._primary

    def _failed(self, store: Ledger, error: StoreError) -> None:
        # Calls that were under way together fail together; the first has said so.
        if isinstance(error, Unstorable) or store is not self._primary:
            self.failures += 1
        else:
            self._fail(error)
            self._come_back()

    def _use(self, store: Ledger) -> None:
        self._primary = store
        self.note = store.note if isinstance(store, SqliteStore) else ""

    def _fail(self, error: StoreError) -> None:
        self.failures += 1
        self._primary, self._leaving = None, self._primary
        if time.monotonic() - self._well_since > _WELL_AFTER_S:
            self._pause_s = self._first_pause_s
        self._owed.extend(self._under_way)
        self._under_way.clear()
        self._on_change(self.healthy, str(error))

    def _come_back(self) -> None:
        if self._recovery is None or self._recovery.done():
            # The one place that keeps this task: it is cancelled and awaited in `close`.
            self._recovery = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        pushed = 0
        while True:
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
            try:
                await self._let_go()
                store = self._leaving = await asyncio.to_thread(self._opener)
                await store.learn(_PROBE, b"1")
                async for number in self._give_back(store):
                    pushed += number
                    # A store that takes writes is there, and only too slow for all of them at once.
                    self._pause_s = self._first_pause_s
            except Exception:  # noqa: BLE001 (whatever it was: this task is the only way back)
                self.failures += 1
                continue
            self._leaving = None
            self._use(store)
            self._well_since = time.monotonic()
            told = f"the store is back; writes given to it: {pushed}"
            self._on_change(self.healthy, f"{told}; {self.note}" if self.note else told)
            return

    async def _let_go(self) -> None:
        store, self._leaving = self._leaving, None
        if store is not None:
            with contextlib.suppress(StoreError, TimeoutError):
                await asyncio.wait_for(store.close(), _CLOSE_S)

    async def _give_back(self, store: Ledger) -> AsyncIterator[int]:
        """Write what is owed; what comes in meanwhile, too, so that nothing is owed at the end. Gives numbers written."""
        while self._owed or self._owed_learned:
            while self._owed_learned:
                name, value = next(iter(self._owed_learned.items()))
                await store.learn(name, value)
                if self._owed_learned[name] == value:
                    del self._owed_learned[name]
            some = [self._owed.popleft() for _ in range(min(_AT_ONCE, len(self._owed)))]
            try:
                await self._push(store, some)
            except StoreError:
                self._owed.extendleft(reversed(some))
                raise
            yield len(some)

    async def _push(self, store: Ledger, some: list[Owed]) -> None:
        """Write these at the same time: one after the other, they might not keep up with the calls that go on."""
        newest = {anchor.key: anchor for anchor, _, _ in some if anchor is not None}
        theirs = {anchor.key: anchor.at for anchor in await store.anchors(list(newest)) if anchor is not None}

        async def write(anchor: Anchor | None, turn: Turn | None, places: tuple[bytes, ...]) -> None:
            # Another process may have served a retry meanwhile: the later call's anchor stays.
            own = anchor is not None and anchor is newest[anchor.key] and theirs.get(anchor.key, anchor.at) <= anchor.at
            kept = anchor if own else None
            with contextlib.suppress(Unstorable):
                if kept is not None and (plan := await self._memory.plan(kept.plan_id)) is not None:
                    await store.decide(kept, plan)
                if turn is not None:
                    held = await self._memory.originals(turn.session, places)
                    originals = [original for original in held if original is not None]
                    await store.settle(Settlement(kept, turn, originals))

        for done in await asyncio.gather(*(write(*one) for one in some), return_exceptions=True):
            if isinstance(done, BaseException):
                raise done
