"""What `opencode export` writes: OpenCode spreads a session over many files, and this puts it into one."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def is_opencode(entry: Json) -> bool:
    """What `opencode export` writes: `{"info": …, "messages": [{"info": {"role": …}, "parts": […]}]}`."""
    messages = entry.get("messages")
    return isinstance(messages, list) and any(map(_is_message, messages))


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict) and isinstance(message.get("info"), dict) and isinstance(message.get("parts"), list)
    )


def opencode(entries: Iterable[Json]) -> list[Json]:
    """The session as Anthropic bodies, whatever its provider was: where it was compacted, it began anew."""
    found: list[Json] = []
    for entry in filter(is_opencode, entries):
        messages: list[Json] = []
        model = ""
        for message in filter(_is_message, entry["messages"]):
            if any(part.get("type") == "compaction" for part in message["parts"]):
                found.append({"model": model, "system": "", "messages": messages})
                messages = []
            model = message["info"].get("modelID") or model
            messages += _said(message)
        found.append({"model": model, "system": "", "messages": messages})
    return [body for body in found if body["messages"]]


def _said(message: Json) -> list[Json]:
    """A message, and the results of its calls, which stand in the same parts."""
    said: list[Json] = []
    results: list[Json] = []
    for part in message["parts"]:
        state = part.get("state")
        if part.get("type") == "text" and part.get("text"):
            said.append({"type": "text", "text": part["text"]})
        elif part.get("type") == "tool" and isinstance(state, dict):
            call = part.get("callID")
            said.append({"type": "tool_use", "id": call, "name": part.get("tool"), "input": state.get("input") or {}})
            text = str(state.get("output") or state.get("error") or "")
            failed = {"is_error": True} if state.get("status") == "error" else {}
            results.append({"type": "tool_result", "tool_use_id": call, "content": text, **failed})
    both = ((message["info"].get("role"), said), ("user", results))
    return [{"role": role, "content": blocks} for role, blocks in both if blocks]
