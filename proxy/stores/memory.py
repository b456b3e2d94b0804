"""The ledger in this process's memory: for tests, for `memory://`, and as the shelter of a store that is down."""

from collections.abc import Callable, Sequence

from proxy.conversation.edit import EMPTY_PLAN, Edit, Insert, Plan, Replace, RestoreReasoning, StripReasoning, Summarise
from proxy.errors import Unstorable
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn
from proxy.ledger.store import SessionSummary, Settlement, TurnQuery
from proxy.stores.attic import Attic
from proxy.stores.shelf import Shelf
from proxy.stores.turnlog import TurnLog

MIB = 1024 * 1024
_SWEEP_STEPS = 2
"""Rows looked at for every write: twice what a write adds, so that removal keeps up."""
_SWEEP_EVERY = 16
"""Writes of anchors that are swept for together: looking costs more than what is looked at."""


def anchor_bytes(anchor: Anchor) -> int:
    """About how many bytes of memory an anchor takes."""
    return 900 + len(anchor.session) + 120 * len(anchor.replies)


def plan_bytes(plan: Plan) -> int:
    """About how many bytes of memory a plan takes: its texts, and what stands around each."""
    return 200 + sum(400 + len(_text(edit)) for edit in plan.edits)


def _text(edit: Edit) -> str:
    match edit:
        case Replace() | Summarise() | Insert():
            return edit.text
        case RestoreReasoning():
            return edit.payload
        case StripReasoning():
            return ""


class MemoryStore:
    """Fulfils `Ledger`; bounded by number, bytes and age, least recently used goes first.

    `room_bytes` is divided: a quarter for anchors, half for plans, an eighth for turns, an eighth for originals.
    """

    def __init__(
        self,
        *,
        ttl_s: float,
        clock: Callable[[], float],
        most_anchors: int = 50_000,
        most_turns: int = 20_000,
        room_bytes: int = 128 * MIB,
    ) -> None:
        self._anchors: Shelf[bytes, Anchor] = Shelf(
            most=most_anchors, room_bytes=room_bytes // 4, ttl_s=ttl_s, clock=clock
        )
        self._plans: Shelf[bytes, Plan] = Shelf(most=most_anchors, room_bytes=room_bytes // 2, ttl_s=ttl_s, clock=clock)
        self._turns = TurnLog(most=most_turns, room_bytes=room_bytes // 8, ttl_s=ttl_s, clock=clock)
        self._attic = Attic(room_bytes=room_bytes // 8, ttl_s=ttl_s, clock=clock)
        self._unswept = 0
        self._learned: Shelf[str, bytes] = Shelf(most=4096, room_bytes=4 * MIB, ttl_s=ttl_s, clock=clock)

    @property
    def held_bytes(self) -> int:
        """About how many bytes are held."""
        parts = (self._anchors, self._plans, self._turns, self._attic, self._learned)
        return sum(part.held_bytes for part in parts)

    async def anchors(self, keys: Sequence[bytes]) -> list[Anchor | None]:
        """See Ledger."""
        return self._anchors.get_all(keys)

    def anchor(self, key: bytes) -> Anchor | None:
        """Of `anchors` one alone."""
        return self._anchors.get(key)

    async def plan(self, plan_id: bytes) -> Plan | None:
        """See Ledger; the empty id is the empty plan."""
        return self._plans.get(plan_id) if plan_id else EMPTY_PLAN

    async def decide(self, anchor: Anchor, plan: Plan) -> None:
        """See Ledger; Unstorable when the plan alone is larger than the room for plans."""
        plan_id = anchor.plan_id
        if plan_id and not self._plans.renew(plan_id):
            size_bytes = plan_bytes(plan)
            if not self._plans.put(plan_id, plan, size_bytes):
                raise Unstorable(f"a plan of {size_bytes} bytes does not fit into the memory store")
        self._keep(anchor)

    def keep_plan(self, plan_id: bytes, plan: Plan) -> None:
        """Of `decide` the plan alone, where there is room for it."""
        self._plans.put(plan_id, plan, plan_bytes(plan))

    async def settle(self, *calls: Settlement) -> None:
        """See Ledger."""
        for call in calls:
            for anchor in (call.anchor, *call.others):
                if anchor is not None:
                    self.keep_anchor(anchor)
            self.keep_turn(call.turn)
            if call.originals:
                self.keep_originals(call.turn.session, call.originals)

    def keep_anchor(self, anchor: Anchor) -> None:
        """Of `settle` the anchor alone."""
        if anchor.plan_id:
            self._plans.renew(anchor.plan_id)
        self._keep(anchor)

    def keep_turn(self, turn: Turn, expires: float | None = None) -> None:
        """Of `settle` the row alone; for the store's life, or until `expires` (Unix seconds)."""
        self._turns.add(turn, expires)
        self._turns.sweep(_SWEEP_STEPS)

    def keep_originals(self, session: str, originals: Sequence[Original]) -> None:
        """Of `settle` what its edits replaced."""
        self._attic.add(session, originals)

    async def originals(self, session: str, ids: Sequence[bytes]) -> list[Original | None]:
        """See Ledger."""
        return self._attic.get(session, ids)

    async def turns(self, query: TurnQuery) -> list[Turn]:
        """See Ledger."""
        return self._turns.find(query)

    async def sessions(self, limit: int) -> list[SessionSummary]:
        """See Ledger."""
        return self._turns.sessions(limit)

    async def learned(self, name: str) -> bytes | None:
        """See Ledger."""
        return self._learned.get(name)

    async def learn(self, name: str, value: bytes) -> None:
        """See Ledger."""
        if not self._learned.put(name, value, len(name) + len(value)):
            raise Unstorable(f"a learned value of {len(value)} bytes does not fit into the memory store")

    async def close(self) -> None:
        """Nothing is pending; what is held stays readable."""

    def _keep(self, anchor: Anchor) -> None:
        self._anchors.put(anchor.key, anchor, anchor_bytes(anchor))
        self._unswept += 1
        if self._unswept >= _SWEEP_EVERY:
            self._unswept = 0
            self._anchors.sweep(_SWEEP_EVERY * _SWEEP_STEPS)
            self._plans.sweep(_SWEEP_EVERY * _SWEEP_STEPS)
