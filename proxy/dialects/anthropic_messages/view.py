"""Anthropic Messages: from the bytes of a request to a conversation.

`system` (text or blocks) stands outside the history; `role: "system"` messages inside it keep their place. A content
block is exactly one part, so a part's index is its block's index, whatever the block is.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Literal

from msgspec.structs import replace

from proxy.conversation.fingerprint import KEY_BYTES, digest
from proxy.conversation.model import (
    NO_TOOLS,
    Conversation,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Tools,
)
from proxy.conversation.recall import Recall
from proxy.dialects.base import View
from proxy.dialects.fields import caller_of, mapping, name_of, objects, parse_tools, small_values, whole
from proxy.dialects.history import read_history
from proxy.dialects.labels import NAMING, label_of
from proxy.dialects.media import from_base64
from proxy.dialects.utility import is_summary, is_utility
from proxy.wire.body import NotPlain, Span, dumps, loads

NAME = "anthropic_messages"

REASONING_TYPES = ("thinking", "redacted_thinking")

# Run by the provider itself; their results stand in the same assistant message.
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")

_ROLES: dict[str, Role] = {"assistant": "assistant", "system": "system"}

# Vertex names the model in the path: …/publishers/anthropic/models/claude-x@date:streamRawPredict
_MODEL_IN_PATH = re.compile(r"/publishers/anthropic/models/([^/:]+):")

# What a client hangs onto tool results without anybody having said it (Claude Code 2.1, recorded 2026-11).
_REMINDER = "<system-reminder>"


_READ = NAMING | {"model", "stream", "max_tokens"}

_Head = tuple[dict[str, Any], tuple[Message, ...], Tools, bool, bool]
"""The short values, system text, tools, whether the provider edits, and whether a breakpoint stands behind all that."""


def view_body(path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
    """The view of a Messages or count_tokens request; None when the body is not one."""
    try:
        history = read_history(NAME, "messages", body, recall, parse_message, _head, _hide)
    except (NotPlain, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    if history is None:
        return None
    messages = tuple(history.messages)
    small, system, tools, server_edits, is_marked = history.head
    conversation = Conversation(
        dialect=NAME,
        model=_model(small, path),
        system=system,
        tools=tools,
        messages=messages,
        stream=small.get("stream") is True,
        max_output=whole(small.get("max_tokens")),
        session_label=label_of(headers, small),
        server_edits=server_edits,
        utility=is_utility(history.asked(), chain(system, messages), tools),
    )
    return View(
        body=body,
        conversation=conversation,
        spans=tuple(history.spans),
        fields=history.fields,
        head_marked=is_marked,
        notes=history.notes,
    )


def _head(body: bytes, fields: Mapping[str, Span], recall: Recall) -> _Head:
    small, system = small_values(body, fields, _READ), _outside(body, fields, recall)
    return small, system, _tools(body, fields, recall), _server_edits(body, fields), _is_marked(body, fields)


def _hide(messages: list[Message], start: int) -> None:
    """Leaves what only code reads out of the messages from `start` on: results of calls in front of them that code made."""
    at = start
    while 0 < at < len(messages) and not _begins(messages, at):
        at -= 1
    by_code: set[str] = set()
    for index in range(at, len(messages)):
        message = messages[index]
        if message.role == "assistant":
            if index and _begins(messages, index):
                by_code.clear()
            for part in message.parts:
                if isinstance(part, ToolCall) and part.caller:
                    by_code.add(part.call_id)
        elif by_code and index >= start:
            messages[index] = _without(message, by_code)


def _begins(messages: Sequence[Message], at: int) -> bool:
    """Whether an answer begins there, of one message or several."""
    return messages[at].role == "assistant" and messages[at - 1].role != "assistant"


def _without(message: Message, by_code: Collection[str]) -> Message:
    """The message with nothing in the results of these calls. Another message than one that says the same to the model."""
    parts = tuple(
        _to_code(part) if isinstance(part, ToolResult) and part.call_id in by_code else part for part in message.parts
    )
    if parts == message.parts:
        return message
    emptied = bytes(isinstance(part, ToolResult) and part.to_code for part in parts)
    return replace(message, parts=parts, digest=blake2b(message.digest + emptied, digest_size=KEY_BYTES).digest())


def _to_code(result: ToolResult) -> ToolResult:
    return replace(result, text="", media=(), fixed=True, to_code=True)


def _model(small: Mapping[str, Any], path: str) -> str:
    named = _MODEL_IN_PATH.search(path)
    return name_of(small.get("model") or (named[1] if named else ""))


def _tools(body: bytes, fields: Mapping[str, Span], recall: Recall) -> Tools:
    return recall.get("tools", body[slice(*fields["tools"])], parse_tools) if "tools" in fields else NO_TOOLS


def _outside(body: bytes, fields: Mapping[str, Span], recall: Recall) -> tuple[Message, ...]:
    if "system" not in fields:
        return ()
    return recall.get(NAME + " system", body[slice(*fields["system"])], _parse_system)


def _is_marked(body: bytes, fields: Mapping[str, Span]) -> bool:
    """Whether a breakpoint stands behind the system text, or behind the tools where there is none."""
    span = fields.get("system") or fields.get("tools")
    return span is not None and b'"cache_control"' in body[slice(*span)]


def _parse_system(raw: bytes) -> tuple[Message, ...]:
    content = loads(raw)
    parts = content_parts(content)
    if not parts:
        return ()
    return (Message(role="system", parts=parts, digest=digest({"role": "system", "content": content})),)


def _server_edits(body: bytes, fields: Mapping[str, Span]) -> bool:
    """Whether the request lets the provider take results out or compact.

    Clearing old thinking does not count: Claude Code asks for it on every call, and no result goes by it.
    """
    if "context_management" not in fields:
        return False
    asked = mapping(loads(body[slice(*fields["context_management"])]))
    return any(not str(edit.get("type")).startswith("clear_thinking") for edit in objects(asked.get("edits")))


def parse_message(raw: bytes) -> Message:
    """One element of `messages`."""
    message = loads(raw)
    parts = content_parts(message.get("content"))
    return Message(
        role=_ROLES.get(str(message.get("role"))) or _asker(parts),
        parts=parts,
        digest=digest(message),
        summary_marked=any(
            (isinstance(part, Opaque) and part.kind == "compaction")
            or (isinstance(part, Text) and is_summary(part.text))
            for part in parts
        ),
    )


def _asker(parts: Sequence[Part]) -> Role:
    """`tool` where only results speak, with at most a client's reminders behind them; else `user`."""
    if ToolResult not in map(type, parts):
        return "user"
    said = [part for part in parts if isinstance(part, Text) and not part.text.lstrip().startswith(_REMINDER)]
    return "user" if said else "tool"


def content_parts(content: object) -> tuple[Part, ...]:
    """What a message or a tool result says, block by block."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    return tuple(_part(item) for item in content) if isinstance(content, list) else ()


def _part(item: Any) -> Part:
    """One content block; a shape that is not the documented one is carried unread."""
    block = mapping(item)
    kind = str(block.get("type"))
    match kind:
        case "text" if isinstance(block.get("text"), str):
            return Text(text=block["text"])
        case "thinking" if isinstance(block.get("thinking"), str):
            return Reasoning(text=block["thinking"], signed=bool(block.get("signature")))
        case "redacted_thinking":
            return Reasoning(text="", signed=True)
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            arguments = dumps(block.get("input", {})).decode()
            return ToolCall(
                call_id=str(block.get("id") or ""),
                name=name_of(block.get("name")),
                arguments=arguments,
                caller=caller_of(block, "tool_id"),
            )
        case "tool_result":
            return _result(block)
        case "image" | "document" | "search_result":
            return _material(block)
        case _ if kind.endswith("_tool_result"):
            # A server tool's: encrypted content is bound to what the provider keeps.
            content = block.get("content")
            result = ToolResult(
                call_id=str(block.get("tool_use_id") or ""),
                name=kind.removesuffix("_tool_result"),
                text="\n".join(_readable(content)),
                media=tuple(_enclosed(content)),
                fixed=True,
            )
            return _to_code(result) if caller_of(block, "tool_id") else result
        case _:
            return Opaque(kind=kind, size_chars=len(dumps(item)))


def _result(block: Mapping[str, Any]) -> ToolResult:
    content = block.get("content")
    parts = content_parts(content)
    return ToolResult(
        call_id=str(block.get("tool_use_id") or ""),
        text="\n".join(part.text for part in parts if isinstance(part, Text)),
        media=tuple(part for part in parts if isinstance(part, Media)),
        is_error=block.get("is_error") is True,
        fixed=not isinstance(content, str | list) or any(not isinstance(part, Text | Media) for part in parts),
    )


def _material(block: Mapping[str, Any]) -> Part:
    """An image, a document or a search result, given inline, as text, as blocks, by URL or by file id."""
    kind: Literal["image", "file"] = "image" if block.get("type") == "image" else "file"
    source = mapping(block.get("source"))
    inline = source.get("data")
    written = block.get("content") if block.get("type") == "search_result" else source.get("content")
    if source.get("type") == "text" and isinstance(inline, str):
        return Text(text=inline)
    if isinstance(written, str | list):
        return Text(text="\n".join(part.text for part in content_parts(written) if isinstance(part, Text)))
    if isinstance(inline, str):
        return from_base64(kind, inline)
    return Media(kind=kind, reference=str(source.get("url") or source.get("file_id") or "")[:256])


def _readable(value: object) -> list[str]:
    """All text in a server tool's result that is not encrypted, a file's bytes or a mere label."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _readable(item)]
    if isinstance(value, dict) and value.get("type") != "base64":
        items = [item for key, item in value.items() if key != "type" and not key.startswith("encrypted_")]
        return [text for item in items for text in _readable(item)]
    return []


def _enclosed(value: object) -> list[Media]:
    """The documents and pictures that a server tool's result holds as bytes (a PDF that was fetched)."""
    held = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if mapping(mapping(value).get("source")).get("type") == "base64":
        medium = _material(mapping(value))
        return [medium] if isinstance(medium, Media) else []
    return [medium for item in held for medium in _enclosed(item)]
