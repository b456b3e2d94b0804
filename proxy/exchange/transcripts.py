"""Reads transcripts of finished conversations.

Understood, told apart by what stands in them:

    a request body              OpenAI chat, Responses, Anthropic Messages, Gemini; also in an object under `request` or `body`
    a list of messages          chat, Anthropic or Gemini
    lists, or JSON lines        of any of these; bare messages are joined
    Claude Code sessions        `{"type": "user" | "assistant", "message": {…}}`, one content block a line
    Codex sessions              `{"type": "response_item", "payload": {…}}`, or bare Responses items
    Gemini CLI sessions         `{"type": "user" | "gemini", "id": …, "content": …}`, alone or under `messages`
    OpenCode exports            `{"messages": [{"info": {…}, "parts": […]}]}`
    the proxy's own             what `store.transcripts` keeps: `{"session": …, "model": …, "request": {…}}`

Clients resend their whole history, so a log of calls holds each conversation many times: what another one begins with
is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from proxy.conversation.fingerprint import prefix_keys, seed_key
from proxy.conversation.model import Conversation
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.session_files import requests_in
from proxy.wire.body import dumps, loads

Json = dict[str, Any]

_HISTORIES = ("messages", "input", "contents")
_SAYS = {"content", "tool_calls", "function_call"}
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


def conversations(raw: bytes, model: str = "") -> list[Conversation]:
    """The conversations in a file; empty when there is none that we understand.

    `model` stands in for the transcript's own.
    """
    recall = Recall()
    found = []
    for transcript in transcripts(raw):
        dialect = dialect_for(transcript.path)
        view = dialect.view(transcript.path, {}, transcript.body, recall) if dialect is not None else None
        if view is not None and view.conversation.messages:
            named = model or transcript.model or view.conversation.model
            found.append(msgspec.structs.replace(view.conversation, model=named))
    return _without_beginnings(found)


def _without_beginnings(found: list[Conversation]) -> list[Conversation]:
    """In their order, without those whose whole history another one begins with."""
    kept: list[tuple[int, Conversation]] = []
    known: set[bytes] = set()
    for at, conversation in sorted(enumerate(found), key=lambda each: -len(each[1].messages)):
        keys = prefix_keys(seed_key(conversation.dialect, "transcript"), conversation.messages)
        if keys[-1] not in known:
            kept.append((at, conversation))
            known.update(keys)
    return [conversation for _, conversation in sorted(kept, key=lambda each: each[0])]


def transcripts(raw: bytes) -> list[Transcript]:
    """The requests in a file whose histories it holds, beginnings of one another among them."""
    values = list(_values(raw))
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    entries = [value for value in values if isinstance(value, dict)]
    return [_transcript(body) for body in _bodies(entries)]


def _bodies(entries: list[Json]) -> list[Json]:
    sent = requests_in(entries)
    if sent is not None:
        return sent
    bodies = [body for entry in entries if (body := _body(entry)) is not None]
    return bodies or _bare(entries)


def _bare(entries: list[Json]) -> list[Json]:
    """The body that a list of messages would have. Those without content are notes about messages, not messages."""
    said = [entry for entry in entries if isinstance(entry.get("role"), str)]
    messages = [entry for entry in said if _SAYS & entry.keys()]
    contents = [entry for entry in said if "parts" in entry and entry["role"] in ("user", "model")]
    if messages:
        return [{"messages": messages}]
    return [{"contents": contents}] if contents else []


def _values(raw: bytes) -> Iterator[Any]:
    """The JSON value of the text, or that of each line that holds one."""
    try:
        yield loads(raw)
    except (ValueError, RecursionError):
        for line in raw.splitlines():
            try:
                yield loads(line)
            except (ValueError, RecursionError):
                continue


def _body(entry: Json) -> Json | None:
    """The request body in an entry, however deep logs have put it."""
    request = entry.get("request")
    nested = (request.get("body"), request) if isinstance(request, dict) else ()
    for candidate in (entry, entry.get("body"), *nested):
        if isinstance(candidate, dict) and any(isinstance(candidate.get(name), list) for name in _HISTORIES):
            # Where the path names the model, as at Gemini, a log has it beside the body.
            return {"model": entry.get("model"), **candidate}
    return None


def _transcript(body: Json) -> Transcript:
    kind = next(name for name in _HISTORIES if isinstance(body.get(name), list))
    if kind == "messages" and _is_anthropic(body):
        kind = "anthropic"
    model = body.get("model")
    named = model if isinstance(model, str) else ""
    return Transcript(path=_PATHS[kind], body=dumps({**body, "model": named}), model=named)


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
