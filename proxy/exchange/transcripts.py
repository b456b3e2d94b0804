"""Reads transcripts of finished conversations into requests that a dialect can view.

Understood, told apart by what stands in them:

    a request body              OpenAI chat, Responses, Anthropic Messages, Gemini; also in an object under `request` or `body`
    a list of messages          chat or Anthropic
    JSON lines of any of these  the longest body counts: clients resend their whole history; bare messages are joined
    Claude Code sessions        `{"type": "user" | "assistant", "message": {…}}`, one content block a line
    Codex sessions              `{"type": "response_item", "payload": {…}}`, or bare Responses items

A session that its own client has compacted becomes several conversations, since its history began anew.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from proxy.wire.body import dumps, loads

Json = dict[str, Any]

_ITEMS = frozenset(
    {"function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output"}
)
_HISTORIES = ("messages", "input", "contents")
_PATHS = {
    "messages": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "input": "/v1/responses",
    "contents": "/v1beta/models/model:generateContent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One conversation as the body of its last request, and the path to which that would have gone."""

    path: str
    body: bytes
    model: str
    """Empty when the transcript does not say."""


def transcripts(raw: bytes) -> list[Transcript]:
    """The conversations in a file; empty when there is none that we understand."""
    values = list(_values(raw))
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    entries = [value for value in values if isinstance(value, dict)]
    if any(_is_claude_code(entry) for entry in entries):
        return _claude_code(entries)
    if any(_is_codex(entry) for entry in entries):
        return _codex(entries)
    bodies = [body for entry in entries if (body := _body(entry)) is not None]
    if bodies:
        return [_transcript(max(bodies, key=_length))]
    messages = [entry for entry in entries if isinstance(entry.get("role"), str)]
    return [_transcript({"messages": messages})] if messages else []


def _values(raw: bytes) -> Iterator[Any]:
    """The JSON value of the text, or that of each line that holds one."""
    try:
        yield loads(raw)
    except ValueError:
        for line in raw.splitlines():
            try:
                yield loads(line)
            except ValueError:
                continue


def _body(entry: Json) -> Json | None:
    """The request body in an entry, however deep logs have put it."""
    request = entry.get("request")
    nested = (request.get("body"), request) if isinstance(request, dict) else ()
    for candidate in (entry, entry.get("body"), *nested):
        if isinstance(candidate, dict) and any(isinstance(candidate.get(name), list) for name in _HISTORIES):
            return candidate
    return None


def _length(body: Json) -> int:
    return max(len(body[name]) for name in _HISTORIES if isinstance(body.get(name), list))


def _transcript(body: Json) -> Transcript:
    kind = next(name for name in _HISTORIES if isinstance(body.get(name), list))
    if kind == "messages" and _is_anthropic(body):
        kind = "anthropic"
    model = body.get("model")
    return Transcript(
        path=_PATHS[kind], body=dumps({"model": "", **body}), model=model if isinstance(model, str) else ""
    )


def _is_anthropic(body: Json) -> bool:
    if "system" in body:
        return True
    blocks = (
        block
        for message in body["messages"]
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for block in message["content"]
        if isinstance(block, dict)
    )
    return any(block.get("type") in ("tool_use", "tool_result", "thinking") for block in blocks)


def _is_claude_code(entry: Json) -> bool:
    return entry.get("type") in ("user", "assistant") and isinstance(entry.get("message"), dict)


def _claude_code(entries: Iterable[Json]) -> list[Transcript]:
    found = []
    messages: list[Json] = []
    model = last_id = ""
    for entry in entries:
        if entry.get("isCompactSummary") or entry.get("subtype") == "compact_boundary":
            found.append((messages, model))
            messages, last_id = [], ""
        if not _is_claude_code(entry) or entry.get("isSidechain"):
            continue
        message = entry["message"]
        model = message.get("model") or model
        said = {"role": message.get("role", entry["type"]), "content": message.get("content", "")}
        if said["role"] == "assistant" and last_id and message.get("id") == last_id:
            # Each block of one answer is a line of its own.
            messages[-1] = {**messages[-1], "content": [*_blocks(messages[-1]), *_blocks(said)]}
        else:
            messages.append(said)
        last_id = str(message.get("id") or "") if said["role"] == "assistant" else ""
    found.append((messages, model))
    return [_transcript({"model": model, "system": "", "messages": messages}) for messages, model in found if messages]


def _blocks(message: Json) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": str(content)}]


def _is_codex(entry: Json) -> bool:
    return entry.get("type") == "response_item" or entry.get("type") in _ITEMS


def _codex(entries: Iterable[Json]) -> list[Transcript]:
    found = []
    items: list[Json] = []
    model = ""
    for entry in entries:
        kind, payload = entry.get("type"), entry.get("payload")
        if kind == "compacted":
            found.append(items)
            items = []
        elif kind == "response_item" and isinstance(payload, dict):
            items.append(payload)
        elif kind in _ITEMS or (kind == "message" and "role" in entry):
            items.append(entry)
        elif kind in ("turn_context", "session_meta") and isinstance(payload, dict):
            model = payload.get("model") or model
    found.append(items)
    return [_transcript({"model": model, "input": items}) for items in found if items]
