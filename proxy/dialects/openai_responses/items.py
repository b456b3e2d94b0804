"""Responses: one item of `input` (or of an answer's `output`) as a message.

message                              its role; easy form `{role, content}` or with `type: message`
function_call, custom_tool_call, …   assistant, one ToolCall
…_output                             tool, one ToolResult
reasoning                            assistant, one Reasoning; signed when it is encrypted
program                              assistant, one ToolCall: its code calls tools, and alone reads what they give
program_output                       assistant, one ToolResult, since the provider runs the program; never edited
mcp_call                             assistant, call and result in one, since the provider runs it; never edited
compaction                           assistant, opaque, marked as a summary
everything else                      opaque
"""

from typing import Any

from proxy.conversation.fingerprint import digest
from proxy.conversation.model import Media, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from proxy.dialects.fields import caller_of, name_of, objects
from proxy.dialects.media import from_audio, from_file, from_url
from proxy.dialects.utility import has_summary
from proxy.wire.body import dumps, loads

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}

# Type → the tool's name where the item has none of its own, and the key of what the model wants done.
_CALLS = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "computer_call": ("computer", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "mcp_call": ("", "arguments"),
    "program": ("program", "code"),
}
_RUN_BY_PROVIDER = frozenset({"mcp_call", "program"})
_RESULTS = frozenset(call.replace("_call", "_call_output") for call in _CALLS.keys() - _RUN_BY_PROVIDER)
COMPACTIONS = frozenset({"compaction", "compaction_summary"})
TRIGGER = "compaction_trigger"
# What the model or the provider writes, beside everything that ends in `_call`.
_WRITTEN = COMPACTIONS | {"reasoning", "item_reference", "mcp_list_tools", "mcp_approval_request", "tool_search_output"}


def parse_item(raw: bytes) -> Message:
    """One element of `input`."""
    item = loads(raw)
    if not isinstance(item, dict):
        return _opaque(item, "unknown")
    kind = str(item.get("type") or "message")
    if kind == "message" and "role" in item:
        return message_of(str(item["role"]), item.get("content"), item)
    if kind in _CALLS:
        return Message(role="assistant", parts=_call(kind, item), digest=digest(item))
    if kind in _RESULTS:
        return Message(role="tool", parts=(_result(item),), digest=digest(item))
    if kind == "program_output":
        return Message(role="assistant", parts=(_program_output(item),), digest=digest(item))
    if kind == "reasoning":
        return Message(role="assistant", parts=(_reasoning(item),), digest=digest(item))
    return _opaque(item, kind)


def message_of(role: str, content: Any, item: dict[str, Any] | None = None) -> Message:
    """A message item; also for text that stands outside the items. `type: message` may be left out: no difference."""
    meant = {"type": "message", **(item or {"role": role, "content": content})}
    parts = tuple(content_parts(content))
    return Message(
        role=_ROLES.get(role, "user"),
        parts=parts,
        digest=digest(meant),
        summary_marked=role == "user" and has_summary(parts),
    )


def parse_text(role: str, raw: bytes) -> Message:
    """`instructions`, or an `input` that is a plain string."""
    return message_of(role, loads(raw))


def call_name(item: dict[str, Any]) -> str | None:
    """The tool that an output item calls; None when it is no call. Matches the name in `parse_item`."""
    kind = str(item.get("type"))
    return name_of(item.get("name") or _CALLS[kind][0]) if kind in _CALLS else None


def _opaque(item: Any, kind: str) -> Message:
    written = kind in _WRITTEN or kind.endswith("_call")
    return Message(
        role="assistant" if written else "user",
        parts=(Opaque(kind=kind, size_chars=len(dumps(item))),),
        digest=digest(item),
        summary_marked=kind in COMPACTIONS,
    )


def content_parts(content: Any) -> list[Part]:
    """What a message or an output says, part by part."""
    if isinstance(content, str):
        return [Text(text=content)] if content else []
    return [_part(part) for part in content] if isinstance(content, list) else []


def _part(part: Any) -> Part:
    kind = str(part.get("type")) if isinstance(part, dict) else "unknown"
    match kind:
        case "input_text" | "output_text" | "text" if isinstance(part.get("text"), str):
            return Text(text=part["text"])
        case "refusal" if isinstance(part.get("refusal"), str):
            return Text(text=part["refusal"])
        case "input_image" | "computer_screenshot":
            return _image(part)
        case "input_file":
            return from_file(part)
        case "input_audio":
            return from_audio(part.get("input_audio"))
        case _:
            return Opaque(kind=kind, size_chars=len(dumps(part)))


def _image(part: dict[str, Any]) -> Media:
    detail = str(part.get("detail") or "")
    url = part.get("image_url")
    if isinstance(url, str):
        return from_url("image", url, detail=detail)
    return Media(kind="image", detail=detail, reference=str(part.get("file_id") or "")[:256])


def _call(kind: str, item: dict[str, Any]) -> tuple[Part, ...]:
    wish = item.get(_CALLS[kind][1])
    call = ToolCall(
        call_id=_call_id(item),
        name=call_name(item) or "",
        arguments=wish if isinstance(wish, str) else "" if wish is None else dumps(wish).decode(),
        caller=caller_of(item, "caller_id"),
    )
    if kind != "mcp_call":
        return (call,)
    output, error = item.get("output"), item.get("error")
    text = output if isinstance(output, str) else ""
    return (call, ToolResult(call_id=call.call_id, text=text, is_error=bool(error), fixed=True))


def _program_output(item: dict[str, Any]) -> ToolResult:
    text = item.get("result")
    return ToolResult(call_id=_call_id(item), text=text if isinstance(text, str) else "", fixed=True)


def _call_id(item: dict[str, Any]) -> str:
    """Local shell outputs and MCP calls have only an `id`."""
    return str(item.get("call_id") or item.get("id") or "")


def _result(item: dict[str, Any]) -> ToolResult:
    if caller_of(item, "caller_id"):
        failed = item.get("status") == "failed"
        return ToolResult(call_id=_call_id(item), text="", is_error=failed, fixed=True, to_code=True)
    output = item.get("output")
    entries = shell_entries(output)
    if entries:
        texts = [str(entry.get(name) or "") for entry in entries for name in ("stdout", "stderr")]
        return ToolResult(call_id=_call_id(item), text="\n".join(filter(None, texts)))
    parts = content_parts(output) if isinstance(output, str | list) else [_part(output)]
    return ToolResult(
        call_id=_call_id(item),
        text="\n".join(part.text for part in parts if isinstance(part, Text)),
        media=tuple(part for part in parts if isinstance(part, Media)),
        is_error=item.get("status") == "failed",
        fixed=not isinstance(output, str | list) or any(isinstance(part, Opaque) for part in parts),
    )


def shell_entries(output: Any) -> list[dict[str, Any]]:
    """The entries of a `shell_call_output`, `[{"stdout": …, "stderr": …, "outcome": {…}}]`; empty for other shapes."""
    entries = objects(output)
    alike = bool(entries) and len(entries) == len(output) and all("stdout" in entry for entry in entries)
    return entries if alike else []


def _reasoning(item: dict[str, Any]) -> Reasoning:
    """The visible summary and text. The encrypted form has no length that says anything; usage tells its cost."""
    texts = [str(part.get("text") or "") for name in ("summary", "content") for part in objects(item.get(name))]
    return Reasoning(text="".join(texts), signed=bool(item.get("encrypted_content")))
