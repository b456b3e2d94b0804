"""Chat completions: from the bytes of a request to a conversation.

Each message, and the list of tools, is parsed once per process and found again by its line (conversation.lines) or its bytes
(conversation.recall).
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from proxy.conversation.fingerprint import digest
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
from proxy.dialects.fields import name_of, parse_tools, small_values, whole
from proxy.dialects.history import leading_system, read_history
from proxy.dialects.labels import NAMING, label_of
from proxy.dialects.media import from_audio, from_file, from_url
from proxy.dialects.utility import has_summary, is_utility
from proxy.wire.body import NotPlain, Span, dumps, loads

NAME = "openai_chat"

_READ = NAMING | {"model", "stream", "stream_options", "max_completion_tokens", "max_tokens", "n"}

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}

# The fields in which compatible providers carry reasoning (DeepSeek, Kimi, llama.cpp | Groq, Ollama, vLLM | OpenRouter).
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_ABOUT_REASONING = frozenset(REASONING_FIELDS)
# Azure names the model, or what its owner calls it, in the path: …/openai/deployments/NAME/chat/completions
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")
_BESIDE_CONTENT = frozenset({"refusal", "tool_calls", "function_call", "audio"})


def view_body(headers: Mapping[str, str], body: bytes, recall: Recall, path: str = "") -> View | None:
    """The view of a chat request; None when the body is not one."""
    try:
        history = read_history(NAME, "messages", body, recall, parse_message, _head)
    except (NotPlain, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    if history is None:
        return None
    messages, (small, tools) = history.messages, history.head
    lead = leading_system(messages)
    streams = small.get("stream") is True
    options = small.get("stream_options")
    conversation = Conversation(
        dialect=NAME,
        model=name_of(small.get("model") or _deployment(path)),
        system=tuple(messages[:lead]),
        tools=tools,
        messages=tuple(messages[lead:]),
        stream=streams,
        max_output=whole(small.get("max_completion_tokens")) or whole(small.get("max_tokens")),
        session_label=label_of(headers, small),
        utility=is_utility(history.asked(), messages, tools),
    )
    return View(
        body=body,
        conversation=conversation,
        spans=tuple(history.spans[lead:]),
        fields=history.fields,
        asks_usage=not streams or (isinstance(options, dict) and options.get("include_usage") is True),
        choices=whole(small.get("n")) or 1,
        notes=history.notes.behind(lead),
    )


def _head(body: bytes, fields: Mapping[str, Span], recall: Recall) -> tuple[dict[str, Any], Tools]:
    """The short values, and the tools."""
    return small_values(body, fields, _READ), _tools(body, fields, recall)


def _tools(body: bytes, fields: Mapping[str, Span], recall: Recall) -> Tools:
    for name in ("tools", "functions"):
        if name in fields:
            return recall.get("tools", body[slice(*fields[name])], parse_tools)
    return NO_TOOLS


def _deployment(path: str) -> str:
    named = _DEPLOYMENT.search(path)
    return unquote(named[1]) if named else ""


def parse_message(raw: bytes) -> Message:
    """One element of `messages`."""
    message = loads(raw)
    role = _ROLES.get(str(message.get("role")), "user")
    parts: list[Part] = (
        [_result(message)] if role == "tool" else [*_reasoning(message), *content_parts(message.get("content"))]
    )
    # Most messages say nothing else.
    if not _BESIDE_CONTENT.isdisjoint(message):
        parts += _beside_content(message, role)
    begins_anew = role == "user" and has_summary(parts)
    return Message(role=role, parts=tuple(parts), digest=digest(message), summary_marked=begins_anew)


def _reasoning(message: dict[str, Any]) -> list[Part]:
    # Most messages have none.
    if _ABOUT_REASONING.isdisjoint(message):
        return []
    texts: list[str] = [message[name] for name in REASONING_FIELDS[:2] if isinstance(message.get(name), str)]
    details = message.get("reasoning_details")
    items = [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    signed = any(item.get("signature") or item.get("data") for item in items)
    # The same text often stands in two fields; only what the longest of them says is counted.
    said = max([*texts, "".join(str(item.get("text") or item.get("summary") or "") for item in items)], key=len)
    sealed = "".join(str(item.get("data") or "") for item in items)
    return [Reasoning(text=said + sealed, signed=signed)] if said or sealed else []


def _beside_content(message: dict[str, Any], role: Role) -> list[Part]:
    """A refusal, calls and sound; of a tool's message only the sound."""
    found: list[Part] = []
    if role != "tool":
        if isinstance(message.get("refusal"), str):
            found.append(Text(text=message["refusal"]))
        found += _calls(message)
    if isinstance(message.get("audio"), dict):
        found.append(Media(kind="audio", reference=str(message["audio"].get("id", ""))))
    return found


def content_parts(content: object) -> list[Part]:
    """What a message or a tool result says, part by part."""
    if isinstance(content, str):
        return [Text(text=content)] if content else []
    if not isinstance(content, list):
        return []
    return [_part(item) for item in content]


def _part(item: Any) -> Part:
    kind = str(item.get("type")) if isinstance(item, dict) else "unknown"
    match kind:
        case "text" if isinstance(item.get("text"), str):
            return Text(text=item["text"])
        case "refusal" if isinstance(item.get("refusal"), str):
            return Text(text=item["refusal"])
        case "thinking":
            return Reasoning(text=_thinking_text(item.get("thinking")), signed=bool(item.get("signature")))
        case "image_url":
            image = item.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            detail = image.get("detail") if isinstance(image, dict) else ""
            return from_url("image", str(url or ""), detail=str(detail or ""))
        case "input_audio":
            return from_audio(item.get("input_audio"))
        case "video_url":
            return Media(kind="video")
        case "file":
            return from_file(item.get("file"))
        case _:
            return Opaque(kind=kind, size_chars=len(dumps(item)))


def _thinking_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return (
        "".join(str(item.get("text") or "") for item in value if isinstance(item, dict))
        if isinstance(value, list)
        else ""
    )


def _calls(message: dict[str, Any]) -> list[Part]:
    found: list[Part] = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        body = call.get("function") or call.get("custom") or {}
        arguments = body.get("arguments", body.get("input", ""))
        found.append(
            ToolCall(
                call_id=str(call.get("id") or ""),
                name=name_of(body.get("name")),
                arguments=arguments if isinstance(arguments, str) else dumps(arguments).decode(),
                signed="extra_content" in call,
            )
        )
    old = message.get("function_call")
    if isinstance(old, dict):
        found.append(ToolCall(call_id="", name=name_of(old.get("name")), arguments=str(old.get("arguments") or "")))
    return found


def _result(message: dict[str, Any]) -> ToolResult:
    content = message.get("content")
    parts = content_parts(content)
    return ToolResult(
        call_id=str(message.get("tool_call_id") or ""),
        name=name_of(message.get("name")),
        text="\n".join(part.text for part in parts if isinstance(part, Text)),
        media=tuple(part for part in parts if isinstance(part, Media)),
        fixed=not isinstance(content, str | list) or any(isinstance(part, Opaque) for part in parts),
    )
