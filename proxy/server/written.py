"""Summaries that were written behind clients' backs, from then until their conversations need them.

They are paid for, so a restart must not lose them, and of several processes that serve a conversation only one shall write one:
each is kept in the ledger too, and so is, for as long as it may take, that one is being written.
"""

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from proxy.conversation.edit import Summarise, storable
from proxy.conversation.fingerprint import index_of
from proxy.errors import StoreError
from proxy.exchange.compact import Need
from proxy.exchange.receive import Received
from proxy.ledger.store import Ledger
from proxy.server.past import keep

_MOST = 256


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the ledger for a conversation: the newest summary, or until when one is being written."""

    until: float = 0.0
    """Unix time; 0: nobody writes one."""
    edit: Summarise | None = None


class Written:
    """See the module."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float], *, writing_s: float) -> None:
        """`clock` gives Unix time. `writing_s`: longest that one is written; whoever takes longer has died."""
        self._ledger = ledger
        self._clock = clock
        self._writing_s = writing_s
        self._ready: OrderedDict[bytes, Summarise] = OrderedDict()

    def ready_for(self, received: Received, need: Need) -> Summarise | None:
        """A summary whose span is a part of this very history; the longest one.

        None where none reaches further than the summary that stands there already.
        """
        index = index_of(received.keys)
        found = [
            (index[edit.last], edit)
            for edit in self._ready.values()
            if edit.first in index
            and index.get(edit.last, -1) >= need.reaches
            and (edit.first == need.first or not need.alternates)
        ]
        return max(found, key=lambda one: one[0])[1] if found else None

    async def look(self, session: str) -> bool:
        """Learn what other processes have written, or this one before it was started; True while another one is at it."""
        try:
            stored = _decoded(await self._ledger.learned(_name(session)))
        except StoreError:
            return False
        if stored.edit is not None:
            self._keep(stored.edit)
        # No further ahead than that: a clock that was wrong must not keep everybody from it.
        return 0 < stored.until - self._clock() <= self._writing_s

    async def claim(self, session: str) -> None:
        """Tell other processes that one is being written here."""
        await self._store(session, _Stored(until=self._clock() + self._writing_s))

    async def put(self, session: str, edit: Summarise) -> None:
        """One is ready."""
        self._keep(edit)
        await self._store(session, _Stored(edit=storable(edit)))

    async def release(self, session: str) -> None:
        """It came to nothing."""
        await self._store(session, _Stored())

    def _keep(self, edit: Summarise) -> None:
        self._ready[edit.last] = edit
        while len(self._ready) > _MOST:
            self._ready.popitem(last=False)

    async def _store(self, session: str, stored: _Stored) -> None:
        await keep(self._ledger, _name(session), msgspec.msgpack.encode(stored))


def _name(session: str) -> str:
    return f"summary/{session}"


def _decoded(stored: bytes | None) -> _Stored:
    try:
        return msgspec.msgpack.decode(stored, type=_Stored) if stored else _Stored()
    except msgspec.MsgspecError:
        # Of another version: one can be written anew.
        return _Stored()
