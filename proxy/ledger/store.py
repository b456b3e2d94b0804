"""The one seam between the core's memory and where it lies: `Ledger`, fulfilled by every module in `stores`.

Every method may raise StoreError (and nothing else); callers go on without memory then. All values expire after the
store's ttl; sizes are bounded. The contract suite in tests/stores runs over all of them.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from proxy.conversation.edit import Plan
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor, Turn


class TurnQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns a report wants; newest first."""

    session: str = ""
    """Empty: all sessions."""
    since: float = 0.0
    """Unix time."""
    before: float | None = None
    """Unix time, for paging backwards; None: from the newest."""
    limit: int = 1000


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the sessions' list: the client's calls; our own (turn 0) are not counted."""

    session: str
    label: str
    """The client's own name for it: the newest that a call has brought."""
    model: str
    upstream: str
    turns: int
    """Number of the client's calls, repeated ones included."""
    first_at: float
    last_at: float
    input_tokens: int
    """Sum over turns of actual input; 0 where not reported."""
    removed_tokens: int
    """Sum over turns of `Turn.spared_tokens`."""


class Settlement(msgspec.Struct, frozen=True):
    """What a call came to."""

    anchor: Anchor | None
    """None when its conversation must not advance."""
    turn: Turn
    originals: Sequence[Original] = ()
    """What its new edits replaced; of each conversation the newest MOST_SESSION_BYTES stay."""
    others: Sequence[Anchor] = ()
    """The same call under other keys, with a plan that is stored already or with none."""


class Ledger(Protocol):
    """Anchors, plans, turns, originals, and a few small learned values."""

    async def anchors(self, keys: Sequence[bytes]) -> list[Anchor | None]:
        """The anchors under these prefix keys, in their order: one batched read."""

    async def plan(self, plan_id: bytes) -> Plan | None:
        """A stored plan; None when it is unknown or expired."""

    async def decide(self, anchor: Anchor, plan: Plan) -> None:
        """Store an anchor and its plan before the request goes out; durable when this returns."""

    async def settle(self, *calls: Settlement) -> None:
        """Store what calls came to. May be written behind. One that cannot be stored does not keep the others from it."""

    async def originals(self, session: str, ids: Sequence[bytes]) -> list[Original | None]:
        """The kept originals of a conversation, in the order of `ids`: one batched read."""

    async def turns(self, query: TurnQuery) -> list[Turn]:
        """Rows for reports, newest first."""

    async def sessions(self, limit: int) -> list[SessionSummary]:
        """The sessions with the newest calls, newest first."""

    async def learned(self, name: str) -> bytes | None:
        """A small learned value (factors, windows, habits of hosts)."""

    async def learn(self, name: str, value: bytes) -> None:
        """Replace a small learned value; last writer wins."""

    async def close(self) -> None:
        """Write what is pending and let go."""
