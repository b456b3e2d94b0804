"""Gemini CLI's session files: one JSON object (`session-*.json`) or, since 2026, a line for each message.

A later line of the same id replaces an earlier one.
"""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_SPOKEN = {"user": "user", "gemini": "model"}
"""What else a file holds (info, warning, error) was only shown."""


def is_gemini_cli(entry: Json) -> bool:
    """A line such as `{"id": …, "type": "user" | "gemini", "content": …}`, or a session under whose `messages` such stand."""
    messages = entry.get("messages")
    return any(map(_is_record, messages if isinstance(messages, list) else (entry,)))


def _is_record(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") in _SPOKEN and "content" in entry and "id" in entry


def gemini_cli(entries: Iterable[Json]) -> list[Json]:
    """The Gemini body of a session."""
    records: dict[str, Json] = {}
    for entry in entries:
        changed = entry.get("$set")
        messages = (changed if isinstance(changed, dict) else entry).get("messages")
        if isinstance(messages, list):
            records = {str(record["id"]): record for record in messages if _is_record(record)}
        elif "$rewindTo" in entry:
            known = list(records)
            kept = known[: known.index(entry["$rewindTo"])] if entry["$rewindTo"] in records else []
            records = {name: records[name] for name in kept}
        elif _is_record(entry):
            records[str(entry["id"])] = entry
    model = next((record["model"] for record in reversed(records.values()) if record.get("model")), "")
    contents = [content for record in records.values() for content in _contents(record)]
    return [{"model": model, "contents": contents}] if contents else []


def _contents(record: Json) -> list[Json]:
    """A message, and the results of its calls, which stand in the same record."""
    calls = [call for call in record.get("toolCalls") or () if isinstance(call, dict)]
    asked = [{"functionCall": {key: call[key] for key in ("id", "name", "args") if key in call}} for call in calls]
    given = [part for call in calls for part in _parts(call.get("result")) or [_unanswered(call)]]
    said = {"role": _SPOKEN[record["type"]], "parts": [*_parts(record["content"]), *asked]}
    return [content for content in (said, {"role": "user", "parts": given}) if content["parts"]]


def _parts(written: Any) -> list[Json]:
    """A text, a part, or a list of them, as parts."""
    listed = written if isinstance(written, list) else [written]
    parts = [{"text": part} if isinstance(part, str) else part for part in listed if part]
    return [part for part in parts if isinstance(part, dict)]


def _unanswered(call: Json) -> Json:
    given = {"id": call.get("id"), "name": call.get("name"), "response": {"error": str(call.get("status"))}}
    return {"functionResponse": given}
