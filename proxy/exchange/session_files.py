"""Reads the session files that Claude Code and Codex keep into the requests that they had sent.

Both write what happened line by line, one JSON object each. What the client showed or noted for itself is left out; a
session that its client has compacted becomes several histories, since each began anew.
"""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_ITEMS = frozenset(
    {"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}
)
_SYNTHETIC = "<synthetic>"
"""The model of messages that Claude Code has written itself."""
_NOT_SENT = "ghost_snapshot"
"""Codex's note of the working tree, for undoing."""


def is_claude_code(entry: Json) -> bool:
    """A line such as `{"type": "user" | "assistant", "message": {"role": …, "content": …}}`."""
    message = entry.get("message")
    return entry.get("type") in ("user", "assistant") and isinstance(message, dict) and "content" in message


def claude_code(entries: Iterable[Json]) -> list[Json]:
    """The Anthropic bodies of a session: its own, then those of its sub-agents.

    Sub-agents have files of their own, or stand in the session's, told apart by `agentId`; older ones, which have
    none, cannot be.
    """
    threads: dict[str, list[Json]] = {}
    for entry in entries:
        threads.setdefault(str(entry.get("agentId") or "?") if entry.get("isSidechain") else "", []).append(entry)
    if "" in threads:
        threads.pop("?", None)
    return [body for thread in threads.values() for body in _thread(thread)]


def _thread(entries: Iterable[Json]) -> list[Json]:
    found: list[Json] = []
    messages: list[Json] = []
    places: dict[str, int] = {}
    model = ""
    for entry in entries:
        if entry.get("isCompactSummary") or entry.get("subtype") == "compact_boundary":
            found.append({"model": model, "system": "", "messages": messages})
            messages, places = [], {}
        if not is_claude_code(entry) or entry.get("isApiErrorMessage"):
            continue
        message = entry["message"]
        if message.get("model") not in (None, _SYNTHETIC):
            model = message["model"]
        said = {"role": message.get("role", entry["type"]), "content": message["content"]}
        answer = str(message.get("id") or "") if said["role"] == "assistant" else ""
        if answer in places:
            # Each block of one answer is a line of its own; results of its first calls may stand between them.
            earlier = messages[places[answer]]
            messages[places[answer]] = {**earlier, "content": [*_blocks(earlier), *_blocks(said)]}
            continue
        if answer:
            places[answer] = len(messages)
        messages.append(said)
    found.append({"model": model, "system": "", "messages": messages})
    return [body for body in found if body["messages"]]


def _blocks(message: Json) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": str(content)}]


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
