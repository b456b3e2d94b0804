"""Anthropic Messages: keeping an answer's thinking blocks, and putting them in again where they stood.

[[0, {"type": "thinking", "thinking": "…", "signature": "…"}], [3, {"type": "redacted_thinking", "data": "…"}]]
"""

from collections.abc import Mapping
from typing import Any

from proxy.conversation.model import Part
from proxy.dialects.anthropic_messages.view import REASONING_TYPES, parse_message
from proxy.dialects.fields import mapping
from proxy.dialects.kept import Room, packed
from proxy.wire.body import array_spans, dumps, loads, object_spans, splice


class KeptReasoning:
    """The thinking of one answer, each block with its index among all blocks."""

    def __init__(self) -> None:
        self._room = Room()
        self._blocks: dict[int, dict[str, Any]] = {}

    def block(self, index: object, block: Mapping[str, Any]) -> None:
        """A block as it begins, or whole."""
        if isinstance(index, int) and block.get("type") in REASONING_TYPES and self._room.take(*block.values()):
            self._blocks[index] = dict(block)

    def delta(self, index: object, delta: Mapping[str, Any]) -> None:
        """A piece of a block: `thinking_delta` or `signature_delta`."""
        name = str(delta.get("type")).removesuffix("_delta")
        piece = delta.get(name)
        known = self._blocks.get(index) if isinstance(index, int) else None
        if name in ("thinking", "signature") and known is not None and self._room.take(piece):
            known[name] = str(known.get(name) or "") + str(piece or "")

    def packed(self) -> str:
        """The form in which it is stored; empty when there was none."""
        if self._room.exceeded or not self._blocks:
            return ""
        sealed = any(block.get("signature") or block.get("data") for block in self._blocks.values())
        return packed([(0, sorted(self._blocks.items()))], sealed=sealed)


def restore(message: bytes, payload: str) -> bytes:
    """The message with the blocks at their old places; unchanged when it has thinking of its own."""
    start, end = object_spans(message).get("content", (0, 0))
    if message[start : start + 1] == b"[":
        blocks = [message[slice(*span)] for span in array_spans(message, start, end)]
        if any(mapping(loads(block)).get("type") in REASONING_TYPES for block in blocks):
            return message
    else:
        text = loads(message[start:end]) if end else ""
        blocks = [dumps({"type": "text", "text": text})] if text else []
    for index, block in loads(payload.encode()):
        blocks.insert(index, dumps(block))
    return splice(message, [((start, end), b"[" + b",".join(blocks) + b"]")]) if end else message


def restored_parts(payload: str) -> tuple[Part, ...]:
    """What the payload adds to a message, for counting."""
    blocks = [block for _, block in loads(payload.encode())]
    return parse_message(dumps({"role": "assistant", "content": blocks})).parts
