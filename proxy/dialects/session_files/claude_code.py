"""Claude Code's session files: a JSON object a line, each block of an answer a line of its own."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_SYNTHETIC = "<synthetic>"
"""The model of messages that Claude Code has written itself."""


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
