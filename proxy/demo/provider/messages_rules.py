"""The structure rules of Anthropic Messages, with the vendor's own error texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.demo.provider.asked import Refused

_MARKS = 4
_COUNTED = frozenset(
    {"cache_control", "messages", "model", "output_config", "speed", "system", "thinking", "tool_choice", "tools"}
)
"""What `count_tokens` takes (API reference, "Count tokens in a Message", 2026-11); no beta is known here."""


def error(message: str, *, status: int = 400, kind: str = "invalid_request_error") -> Refused:
    """An error in Anthropic's shape."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}
    return Refused(status, body)


def checked(body: Mapping[str, Any], *, counting: bool) -> Sequence[Mapping[str, Any]]:
    """The messages of a body that keeps all rules; raises Refused."""
    for name in ("model", "messages") if counting else ("model", "max_tokens", "messages"):
        if name not in body:
            raise error(f"{name}: Field required")
    if counting:
        for name in sorted(body.keys() - _COUNTED):
            raise error(f"{name}: Extra inputs are not permitted")
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    if not messages:
        raise error("messages: at least one message is required")
    _check_marks(body)
    for number, message in enumerate(messages):
        _check_message(number, message, last=number == len(messages) - 1)
    if messages[0]["role"] != "user":
        raise error('messages: first message must use the "user" role')
    _check_pairs(messages)
    if (body.get("thinking") or {}).get("type") == "enabled":
        _check_loop_thinks(messages)
    return messages


def blocks_of(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The content as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def results_in(message: Mapping[str, Any]) -> list[str]:
    """The ids that the message's tool results answer."""
    return [block["tool_use_id"] for block in blocks_of(message) if block["type"] == "tool_result"]


def prompt_of(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What of the messages stands in the prompt: nothing that goes between code and the client."""
    by_code = {block["id"] for message in messages for block in blocks_of(message) if _made_by_code(block)}
    if not by_code:
        return messages
    prompt = ([block for block in blocks_of(message) if _names(block).isdisjoint(by_code)] for message in messages)
    return [{**message, "content": content} for message, content in zip(messages, prompt, strict=True) if content]


def _made_by_code(block: Mapping[str, Any]) -> bool:
    return (block.get("caller") or {}).get("type", "direct") != "direct" and "id" in block


def _names(block: Mapping[str, Any]) -> set[object]:
    """The call that a block is, or answers."""
    return {block.get("id"), block.get("tool_use_id")}


def _calls_in(message: Mapping[str, Any]) -> list[str]:
    return [block["id"] for block in blocks_of(message) if block["type"] == "tool_use"]


def _check_message(number: int, message: Mapping[str, Any], *, last: bool) -> None:
    role = message.get("role")
    if role == "system":
        raise error(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" '
            "as an input message role."
        )
    if role not in ("user", "assistant"):
        raise error(f"messages.{number}.role: Input should be 'user' or 'assistant'")
    if not message.get("content"):
        if last and role == "assistant":
            return
        raise error(
            f"messages.{number}: all messages must have non-empty content except for the optional final assistant "
            "message"
        )
    for position, block in enumerate(blocks_of(message)):
        where = f"messages.{number}.content.{position}"
        if block["type"] == "text" and not block["text"]:
            if block.get("cache_control"):
                raise error(f"{where}.text: cache_control cannot be set for empty text blocks")
            raise error("messages: text content blocks must be non-empty")
        if block["type"] == "thinking":
            if not block.get("signature"):
                raise error(f"{where}.thinking.signature: Field required")
            if block.get("cache_control"):
                raise error(f"{where}.thinking.cache_control: Extra inputs are not permitted")
    final = blocks_of(message)[-1]
    if last and role == "assistant" and final["type"] == "text" and final["text"] != final["text"].rstrip():
        raise error("messages: final assistant content cannot end with trailing whitespace")


def _check_pairs(messages: Sequence[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for number, message in enumerate(messages):
        before = _calls_in(messages[number - 1]) if number else []
        answered = results_in(message) if message["role"] == "user" else []
        missing = [call_id for call_id in before if call_id not in answered or not _results_lead(message)]
        if missing:
            raise _unanswered(number - 1, missing)
        for position, block in enumerate(blocks_of(message)):
            if block["type"] == "tool_result" and block["tool_use_id"] not in before:
                raise error(
                    f"messages.{number}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` block in "
                    "the previous message."
                )
        for call_id in answered:
            if answered.count(call_id) > 1:
                raise error(
                    f"messages.{number}: each tool_use must have a single result. Found multiple `tool_result` blocks "
                    f"with id: {call_id}"
                )
        for call_id in _calls_in(message):
            if call_id in seen:
                raise error("messages: `tool_use` ids must be unique")
            seen.add(call_id)
    if _calls_in(messages[-1]):
        raise _unanswered(len(messages) - 1, _calls_in(messages[-1]))


def _unanswered(number: int, ids: Sequence[str]) -> Refused:
    return error(
        f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _results_lead(message: Mapping[str, Any]) -> bool:
    """Tool results come first in a user's content; text in front of them counts as no answer."""
    kinds = [block["type"] == "tool_result" for block in blocks_of(message)]
    return kinds == sorted(kinds, reverse=True)


def _check_marks(body: Mapping[str, Any]) -> None:
    found = _marks(body)
    if found > _MARKS:
        raise error(f"A maximum of {_MARKS} blocks with cache_control may be provided. Found {found}.")


def _marks(value: Any) -> int:
    if isinstance(value, dict):
        own = value.get("cache_control") is not None
        # What a tool was called with is the model's text, whatever its keys are.
        return own + sum(_marks(item) for key, item in value.items() if key not in ("input", "input_schema"))
    if isinstance(value, list):
        return sum(map(_marks, value))
    return 0


def _check_loop_thinks(messages: Sequence[Mapping[str, Any]]) -> None:
    """With thinking enabled, the assistant turns of the running tool loop begin with a thinking block."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if message["role"] == "user" and not results_in(message):
            return
        if message["role"] == "assistant":
            first = blocks_of(message)[0]["type"]
            if _calls_in(message) and first not in ("thinking", "redacted_thinking"):
                raise error(
                    f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                    f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking "
                    "block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
                )
