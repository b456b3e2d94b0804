"""Gemini: one element of `contents` as a message. Each JSON part is one neutral part, so their indices agree.

    text                        Text; Reasoning with `thought: true`, or when it is empty and only carries a signature
    functionCall                ToolCall; signed when the part has a `thoughtSignature`
    functionResponse            ToolResult; a content with one has the role `tool`, text beside it or not
    inlineData, fileData        Media
    executableCode, …           Opaque

Ids of calls are optional; without them Google pairs by name and order, and so does conversation.pairing.
"""

from typing import Any

from proxy.conversation.fingerprint import digest
from proxy.conversation.model import Media, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from proxy.dialects.fields import mapping, name_of, objects
from proxy.dialects.gemini.spelling import either
from proxy.dialects.media import Kind, from_base64
from proxy.dialects.utility import has_summary
from proxy.wire.body import dumps, loads

_KINDS: dict[str, Kind] = {"image": "image", "audio": "audio", "video": "video"}


def parse_content(raw: bytes) -> Message:
    """One element of `contents`."""
    return message_of(loads(raw))


def parse_system(raw: bytes) -> Message:
    """`systemInstruction`: a content whatever its role says, or a plain text."""
    content = loads(raw)
    return message_of({"parts": [{"text": content}]} if isinstance(content, str) else content, role="system")


def message_of(content: Any, *, role: Role | None = None) -> Message:
    """A content object; anything else is carried unread."""
    if not isinstance(content, dict):
        parts: tuple[Part, ...] = (Opaque(kind="unknown", size_chars=len(dumps(content))),)
        return Message(role=role or "user", parts=parts, digest=digest(content))
    parts = tuple(_part(part) for part in parts_of(content))
    speaker = role or _speaker(str(content.get("role")), parts)
    return Message(
        role=speaker,
        parts=parts,
        digest=digest(content),
        summary_marked=speaker == "user" and has_summary(parts),
    )


def parts_of(content: dict[str, Any]) -> list[Any]:
    """The content's parts; Google takes a single one without its list."""
    parts = content.get("parts")
    return parts if isinstance(parts, list) else [parts] if isinstance(parts, dict) else []


def text_key(response: Any) -> str:
    """Where a function's response says what it says: its only text among numbers and flags; empty when not clear."""
    held = mapping(response)
    texts = [key for key, value in held.items() if isinstance(value, str)]
    plain = all(value is None or isinstance(value, str | int | float) for value in held.values())
    return texts[0] if plain and len(texts) == 1 else ""


def _speaker(role: str, parts: tuple[Part, ...]) -> Role:
    if ToolResult in map(type, parts):
        return "tool"
    return "assistant" if role == "model" else "user"


def _part(part: Any) -> Part:
    if isinstance(part, dict):
        # Most parts are nothing but a text.
        if len(part) == 1 and isinstance(part.get("text"), str):
            return Text(text=part["text"])
        text, call, response = (either(part, name) for name in ("text", "functionCall", "functionResponse"))
        signed = bool(either(part, "thoughtSignature"))
        if isinstance(call, dict):
            arguments = dumps(call.get("args") or {}).decode()
            return ToolCall(call_id=_id(call), name=_name(call), arguments=arguments, signed=signed)
        if isinstance(response, dict):
            return _result(response)
        if isinstance(text, str):
            thinks = part.get("thought") is True or (signed and not text)
            return Reasoning(text=text, signed=signed) if thinks else Text(text=text)
        medium = _medium(part)
        if medium is not None:
            return medium
    kind = next((key for key in mapping(part) if key not in ("thought", "thoughtSignature")), "unknown")
    return Opaque(kind=kind, size_chars=len(dumps(part)))


def _name(holder: dict[str, Any]) -> str:
    return name_of(holder.get("name"))


def _id(holder: dict[str, Any]) -> str:
    return str(holder.get("id") or "")


def _result(holder: dict[str, Any]) -> ToolResult:
    response = holder.get("response")
    held = mapping(response)
    key = text_key(response)
    media = (_medium(part) for part in objects(holder.get("parts")))
    return ToolResult(
        call_id=_id(holder),
        name=_name(holder),
        text=held[key] if key else dumps(response).decode() if held else "",
        media=tuple(medium for medium in media if medium is not None),
        is_error=bool(held.get("error")),
        fixed=not isinstance(response, dict),
    )


def _medium(part: dict[str, Any]) -> Media | None:
    inline, file = mapping(either(part, "inlineData")), mapping(either(part, "fileData"))
    if not inline and not file:
        return None
    kind = _KINDS.get(str(either(inline or file, "mimeType")).partition("/")[0], "file")
    detail = str(mapping(either(part, "mediaResolution")).get("level") or "")
    payload = inline.get("data")
    if isinstance(payload, str):
        return from_base64(kind, payload, detail=detail)
    return Media(kind=kind, detail=detail, reference=str(either(file, "fileUri") or "")[:256])
