"""Codex's session files: a JSON object a line, around items of the Responses API, in older files bare ones."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_ITEMS = frozenset(
    {"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}
)
_NOT_SENT = "ghost_snapshot"
"""Codex's note of the working tree, for undoing."""


def is_codex(entry: Json) -> bool:
    """A line such as `{"type": "response_item", "payload": {…}}`, or in older files a bare item."""
    kind = str(entry.get("type"))
    return kind == "response_item" or kind in _ITEMS


def codex(entries: Iterable[Json]) -> list[Json]:
    """The Responses bodies of a session."""
    found: list[Json] = []
    items: list[Any] = []
    model = instructions = ""
    for entry in entries:
        kind, payload = str(entry.get("type")), entry.get("payload")
        inner = payload if isinstance(payload, dict) else {}
        if kind == "compacted":
            found.append({"model": model, "instructions": instructions, "input": items})
            items = _after_compaction(inner)
        elif kind == "response_item" and inner:
            items.append(inner)
        elif kind in _ITEMS or (kind == "message" and "role" in entry):
            items.append(entry)
        elif kind in ("turn_context", "session_meta"):
            model = inner.get("model") or model
            instructions = _instructions(inner) or instructions
    found.append({"model": model, "instructions": instructions, "input": items})
    for body in found:
        body["input"] = [item for item in body["input"] if not _is_note(item)]
    return [body for body in found if body["input"]]


def _after_compaction(payload: Json) -> list[Any]:
    """The history with which a compacted session goes on, as far as the file tells."""
    kept = payload.get("replacement_history")
    if isinstance(kept, list):
        return list(kept)
    summary = payload.get("message")
    text = {"type": "input_text", "text": summary}
    return [{"type": "message", "role": "user", "content": [text]}] if isinstance(summary, str) and summary else []


def _instructions(payload: Json) -> str:
    """The system text, where the file has it; `instructions` are the user's and stand in a message too."""
    given = payload.get("base_instructions")
    text = given.get("text") if isinstance(given, dict) else None
    return text if isinstance(text, str) else ""


def _is_note(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == _NOT_SENT
