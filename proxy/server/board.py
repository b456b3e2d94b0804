"""What people order while the proxy runs: the mode, per conversation too, and messages that wait for a conversation.

Kept in the ledger as one small value, so that it survives a restart and reaches every process that shares the store. A
process reads it anew every `EVERY_S` and before each change: what another one was told is known here a second later,
and of two changes at the same millisecond the later one wins. Calls read this process's memory only.

A message is not delivered twice even so: its id stands in the plan's edit, and a plan that has it takes it no more.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import msgspec
import structlog

from proxy.errors import StoreError
from proxy.ledger.records import Queued
from proxy.ledger.store import Ledger
from proxy.settings.values import Mode

EVERY_S = 1.0
MOST_QUEUED = 20
"""Messages that wait for one conversation."""
MOST_CHARS = 100_000
"""Of one message."""
_MOST_SESSIONS = 500
_NAME = "control.board"
_REACH: tuple[Mode, ...] = ("off", "observe", "prune")
"""From least to most."""

log = structlog.get_logger("proxy")


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The stored form."""

    mode: Mode | None = None
    """None: as configured."""
    modes: dict[str, Mode] = {}
    """Session → its own mode."""
    queues: dict[str, tuple[Queued, ...]] = {}
    """Session → messages that wait, first come first."""


class Full(Exception):
    """There is no room for one more."""


class Board:
    """The orders of this process."""

    def __init__(self, ledger: Ledger, configured: Mode) -> None:
        self._ledger = ledger
        self.configured: Mode = configured
        self.orders = Orders()
        self._polling: asyncio.Task[None] | None = None
        # Without it, a reading that began before a change could undo it for a second.
        self._turnstile = asyncio.Lock()

    @property
    def mode(self) -> Mode:
        """The mode for conversations that have none of their own."""
        return self.orders.mode or self.configured

    def mode_of(self, session: str) -> Mode:
        """The mode of one conversation."""
        orders = self.orders
        return orders.modes.get(session) or orders.mode or self.configured

    def allowed(self, wish: Mode, session: str) -> Mode:
        """What a call gets that asks for a mode itself: no more than was ordered while running, if anything was."""
        ordered = self.orders.modes.get(session) or self.orders.mode
        return wish if ordered is None else min(wish, ordered, key=_REACH.index)

    def queued(self, session: str) -> tuple[Queued, ...]:
        """What waits for this conversation."""
        return self.orders.queues.get(session, ())

    async def start(self) -> None:
        """Read the orders, and go on reading them."""
        await self.read()
        if self.mode != self.configured:
            log.warning("mode_overridden", mode=self.mode, configured=self.configured)
        # The one place that keeps this task: it is cancelled and awaited in `aclose`.
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def aclose(self) -> None:
        """Stop reading."""
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling

    async def read(self) -> None:
        """Take over what stands in the ledger; where that fails, what is known stays."""
        async with self._turnstile:
            await self._read()

    async def set_mode(self, mode: Mode | None, session: str = "") -> None:
        """The mode from now on, of one conversation or of all others; None: no longer ordered."""
        if not session:
            await self._change(lambda orders: msgspec.structs.replace(orders, mode=mode))
            return

        def changed(orders: Orders) -> Orders:
            modes = {name: own for name, own in orders.modes.items() if name != session}
            if mode is not None:
                modes = _newest({**modes, session: mode})
            return msgspec.structs.replace(orders, modes=modes)

        await self._change(changed)

    async def queue(self, session: str, message: Queued) -> int:
        """Put a message behind those that wait; gives its position, from 1. Raises Full."""

        def added(orders: Orders) -> Orders:
            waiting = orders.queues.get(session, ())
            if len(waiting) >= MOST_QUEUED or (not waiting and len(orders.queues) >= _MOST_SESSIONS):
                raise Full
            return _with_queue(orders, session, (*waiting, message))

        await self._change(added)
        return len(self.queued(session))

    async def drop(self, session: str, ids: Iterable[str]) -> int:
        """Take messages out: cancelled, or delivered; gives how many there were."""
        gone = set(ids)
        found = 0

        def dropped(orders: Orders) -> Orders:
            nonlocal found
            waiting = orders.queues.get(session, ())
            left = tuple(message for message in waiting if message.id not in gone)
            found = len(waiting) - len(left)
            return _with_queue(orders, session, left)

        await self._change(dropped)
        return found

    async def give_back(self, session: str, messages: tuple[Queued, ...]) -> None:
        """Put messages in front again whose call came to nothing."""

        def returned(orders: Orders) -> Orders:
            waiting = orders.queues.get(session, ())
            known = {message.id for message in waiting}
            again = tuple(message for message in messages if message.id not in known)
            return _with_queue(orders, session, (*again, *waiting))

        await self._change(returned)

    async def _change(self, change: Callable[[Orders], Orders]) -> None:
        async with self._turnstile:
            await self._read()
            before = self.orders
            self.orders = change(before)
            if self.orders != before:
                with contextlib.suppress(StoreError):
                    await self._ledger.learn(_NAME, msgspec.msgpack.encode(self.orders))

    async def _read(self) -> None:
        with contextlib.suppress(StoreError):
            stored = await self._ledger.learned(_NAME)
            if stored is not None:
                self.orders = _decoded(stored)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.read()


def _with_queue(orders: Orders, session: str, waiting: tuple[Queued, ...]) -> Orders:
    queues = {name: messages for name, messages in orders.queues.items() if name != session}
    if waiting:
        queues[session] = waiting
    return msgspec.structs.replace(orders, queues=queues)


def _newest(modes: dict[str, Mode]) -> dict[str, Mode]:
    return dict(list(modes.items())[-_MOST_SESSIONS:])


def _decoded(stored: bytes) -> Orders:
    try:
        return msgspec.msgpack.decode(stored, type=Orders)
    except msgspec.MsgspecError:
        # Of another version: orders are few and can be given again.
        return Orders()
