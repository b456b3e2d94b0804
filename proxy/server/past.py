"""Memory of a request, from whatever store there is, and what is kept for later ones; without one calls go on."""

import structlog

from proxy.conversation.edit import Plan
from proxy.errors import StoreError
from proxy.exchange.receive import NO_MEMORY, Memory, Received, deepest, memory_of
from proxy.ledger.store import Ledger

log = structlog.get_logger("proxy")


async def remember(ledger: Ledger, received: Received) -> Memory:
    """The deepest anchors of this history and their plans: one batched read, and one more where a plan is not cached."""
    keys = received.lookup()
    if not keys:
        return NO_MEMORY
    try:
        anchors = await ledger.anchors(keys)
        if not any(anchors):
            return NO_MEMORY
        line, measured = deepest(received, anchors)
        plans: dict[bytes, Plan] = {}
        for position in {line, measured}:
            anchor = anchors[position] if position >= 0 else None
            if anchor is not None and anchor.plan_id and anchor.plan_id not in plans:
                plan = await ledger.plan(anchor.plan_id)
                if plan is not None:
                    plans[anchor.plan_id] = plan
    except StoreError as error:
        log.warning("failed_open", stage="recall", error=type(error).__name__)
        return NO_MEMORY
    return memory_of(received, anchors, line, measured, plans)


async def keep(ledger: Ledger, name: str, value: bytes) -> None:
    """Store something small for later calls and other processes; where that fails, this process alone has it."""
    try:
        await ledger.learn(name, value)
    except StoreError as error:
        log.warning("failed_open", stage="learn", error=type(error).__name__)
