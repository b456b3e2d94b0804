"""Responses: keeping an answer's reasoning items, and putting them in again in front of what they led to.

Only encrypted items can be restored: what is not encrypted lies with the provider under an id, or nowhere. An item's id
is sent only where the item behind it has one, too: ids of answers that were not stored are refused.
"""

from collections.abc import Sequence
from typing import Any

from proxy.conversation.model import Part
from proxy.dialects.kept import Room, packed
from proxy.dialects.openai_responses.items import parse_item
from proxy.wire.body import dumps, loads, object_spans, without_keys

# `content` beside encrypted content is refused (zyycn/codex-proxy-rs#200); `status` is the answer's own business.
_NOT_SENT = ("content", "status")


def kept_items(output: Sequence[dict[str, Any]]) -> str:
    """The reasoning of a whole answer in the form in which it is stored; empty when none can be restored."""
    room = Room()
    slots: dict[int, list[dict[str, Any]]] = {}
    position = 0
    for item in output:
        if item.get("type") != "reasoning":
            position += 1
        elif item.get("encrypted_content") and room.take(item["encrypted_content"]):
            kept = {name: value for name, value in item.items() if name not in _NOT_SENT}
            slots.setdefault(position, []).append(kept)
    return "" if room.exceeded else packed(list(slots.items()), sealed=True)


def restore(item: bytes, payload: str) -> bytes:
    """The reasoning items and the item itself, as elements of one array."""
    kept = [dumps(one) for one in loads(payload.encode())]
    if "id" not in object_spans(item):
        kept = [without_keys(one, ("id",)) for one in kept]
    return b",".join([*kept, item])


def restored_parts(payload: str) -> tuple[Part, ...]:
    """What the payload adds, for counting."""
    return tuple(part for item in loads(payload.encode()) for part in parse_item(dumps(item)).parts)
