"""Chat completions: keeping an answer's reasoning, and putting it in again.

    {"reasoning_content": "…", "reasoning_details": […], "extra_content": {…}, "tool_calls": [{"extra_content": …}, null]}

Everything that a provider may want back is kept under its own name: texts, OpenRouter's details with their signatures,
and Google's signatures, which stand in `extra_content` of each call or of the message.
"""

from collections.abc import Mapping
from typing import Any

from proxy.conversation.model import Part, Reasoning
from proxy.dialects.fields import mapping, objects
from proxy.dialects.kept import Room, packed
from proxy.dialects.openai_chat.view import parse_message
from proxy.wire.body import array_spans, dumps, loads, object_spans, splice, with_keys

_TEXTS = ("reasoning_content", "reasoning")
_SIGNATURES = ("extra_content", "thought_signature")
PLACES = frozenset({*_TEXTS, *_SIGNATURES, "reasoning_details", "tool_calls"})
"""Where there may be something to keep."""
_GROWING = ("text", "summary", "data")
_MOST_CALLS = 256


class KeptReasoning:
    """The reasoning of one choice, from deltas or from a whole message."""

    def __init__(self) -> None:
        self._room = Room()
        self._texts: dict[str, list[str]] = {}
        self._details: dict[tuple[str, str], dict[str, Any]] = {}
        self._signatures: dict[str, Any] = {}
        self._calls: dict[int, Any] = {}

    def take(self, delta: Mapping[str, Any]) -> None:
        """A delta or a whole message."""
        for name in _TEXTS:
            piece = delta.get(name)
            if isinstance(piece, str) and self._room.take(piece):
                self._texts.setdefault(name, []).append(piece)
        for position, detail in enumerate(objects(delta.get("reasoning_details"))):
            self._detail(position, detail)
        for name in _SIGNATURES:
            if delta.get(name) is not None:
                self._signatures[name] = delta[name]
        for position, call in enumerate(objects(delta.get("tool_calls"))):
            if call.get("extra_content") is not None:
                index = call.get("index")
                index = index if isinstance(index, int) else position
                if 0 <= index < _MOST_CALLS:
                    self._calls[index] = call["extra_content"]

    def _detail(self, position: int, detail: dict[str, Any]) -> None:
        """A piece of a detail: texts of one index grow, everything else is said once."""
        if not self._room.take(*detail.values()):
            return
        key = (str(detail.get("index", position)), str(detail.get("type")))
        known = self._details.setdefault(key, {})
        for name, value in detail.items():
            grows = name in _GROWING and isinstance(value, str) and isinstance(known.get(name), str)
            if grows:
                known[name] += value
            elif value is not None or name not in known:
                known[name] = value

    def packed(self) -> str:
        """The form in which it is stored; empty when there was none."""
        if self._room.exceeded or not (self._texts or self._details or self._signatures or self._calls):
            return ""
        value: dict[str, Any] = {name: "".join(pieces) for name, pieces in self._texts.items() if any(pieces)}
        if self._details:
            value["reasoning_details"] = list(self._details.values())
        value |= self._signatures
        if self._calls:
            value["tool_calls"] = [self._calls.get(index) for index in range(max(self._calls) + 1)]
        sealed = any(detail.get("signature") or detail.get("data") for detail in self._details.values())
        return packed([(0, value)] if value else [], sealed=sealed or bool(self._calls or self._signatures))


def restore(message: bytes, payload: str) -> bytes:
    """The message with what it lacks; what it has stays."""
    kept = dict(mapping(loads(payload.encode())))
    extras = kept.pop("tool_calls", [])
    spans = object_spans(message)
    absent = {name: value for name, value in kept.items() if message[slice(*spans.get(name, (0, 0)))] in _EMPTY}
    restored = with_keys(message, {name: dumps(value) for name, value in absent.items()}) if absent else message
    start, end = object_spans(restored).get("tool_calls", (0, 0))
    if not extras or restored[start : start + 1] != b"[":
        return restored
    changes = [
        (span, with_keys(call, {"extra_content": dumps(extra)}))
        for span, extra in zip(array_spans(restored, start, end), extras, strict=False)
        if extra is not None and "extra_content" not in object_spans(call := restored[slice(*span)])
    ]
    return splice(restored, changes) if changes else restored


_EMPTY = frozenset({b"", b'""', b"null", b"[]"})


def restored_parts(payload: str) -> tuple[Part, ...]:
    """What the payload adds to a message, for counting."""
    kept = {name: value for name, value in mapping(loads(payload.encode())).items() if name != "tool_calls"}
    message = parse_message(dumps({"role": "assistant", **kept}))
    return tuple(part for part in message.parts if isinstance(part, Reasoning))
