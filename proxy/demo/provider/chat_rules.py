"""The rules of chat completions, with the vendors' own error texts: OpenAI's structure, others' wishes about reasoning."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.demo.provider.asked import Refused, Rules

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = {"tool": ("text", "image_url"), "user": ("text", "image_url", "input_audio", "file")}


def error(message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> Refused:
    """An error in OpenAI's shape."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return Refused(status, body)


def check_pairs(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool call is answered right behind it, and every tool message answers one."""
    open_ids: list[str] = []
    known: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if "tool_call_id" not in message:
                raise error(f"Missing required parameter: 'messages[{number}].tool_call_id'.")
            if message["tool_call_id"] not in known:
                raise error(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{number}].role",
                )
            open_ids = [call_id for call_id in open_ids if call_id != message["tool_call_id"]]
            continue
        _check_closed(open_ids, number)
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
        known = set(open_ids)
    _check_closed(open_ids, len(messages))


def _check_closed(open_ids: Sequence[str], number: int) -> None:
    if open_ids:
        raise error(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_ids)}",
            param=f"messages.[{number}].role",
        )


def checked(body: Mapping[str, Any], rules: Rules) -> Sequence[Mapping[str, Any]]:
    """The messages of a body that keeps all rules; raises Refused."""
    if not isinstance(body.get("model"), str):
        raise error("you must provide a model parameter")
    if "stream_options" in body:
        if not rules.stream_options:
            raise error("property 'stream_options' is unsupported")
        if not body.get("stream"):
            raise error(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
            )
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise error("Missing required parameter: 'messages'.", code="missing_required_parameter", param="messages")
    if not messages:
        raise error(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            code="empty_array",
            param="messages",
        )
    for number, message in enumerate(messages):
        _check_message(number, message)
    check_pairs(messages)
    _check_reasoning(messages, rules.reasoning_back)
    if rules.signatures_back:
        _check_signatures(messages)
    return messages


def _check_message(number: int, message: Mapping[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        supported = ", ".join(f"'{name}'" for name in _ROLES[:-1]) + f", and '{_ROLES[-1]}'"
        raise error(
            f"Invalid value: '{role}'. Supported values are: {supported}.",
            code="invalid_value",
            param=f"messages[{number}].role",
        )
    if content is None and not (role == "assistant" and message.get("tool_calls")):
        raise error("Invalid value for 'content': expected a string, got null.", param=f"messages.[{number}].content")
    if isinstance(content, list):
        allowed = _PARTS.get(str(role), ("text", "refusal"))
        if not content or any(part.get("type") not in allowed for part in content):
            raise error(
                f"Invalid 'messages[{number}]'. Content blocks are expected to be either text or image_url type."
            )
    for position, call in enumerate(message.get("tool_calls") or ()):
        where = f"messages[{number}].tool_calls[{position}].function.arguments"
        if not isinstance((call.get("function") or {}).get("arguments"), str):
            raise error(
                f"Invalid type for '{where}': expected a string, but got an object instead.",
                code="invalid_type",
                param=where,
            )


def _check_reasoning(messages: Sequence[Mapping[str, Any]], rule: str) -> None:
    """DeepSeek and Kimi in thinking mode want `reasoning_content` back with every tool call; Groq takes none."""
    if not rule:
        return
    for number, message in enumerate(messages):
        if rule == "groq":
            if "reasoning_content" in message:
                raise error(
                    f"'messages.{number}' : for 'role:assistant' the following must be satisfied[('messages.{number}' : "
                    "property 'reasoning_content' is unsupported)]"
                )
        elif message["role"] == "assistant" and message.get("tool_calls") and not message.get("reasoning_content"):
            if rule == "deepseek":
                raise error("The `reasoning_content` in the thinking mode must be passed back to the API.")
            raise error(
                f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {number}"
            )


def _check_signatures(messages: Sequence[Mapping[str, Any]]) -> None:
    """Since the user's last words, the first call of every step carries Google's signature."""
    for number in range(len(messages) - 1, -1, -1):
        if messages[number]["role"] == "user":
            return
        for call in (messages[number].get("tool_calls") or ())[:1]:
            if not ((call.get("extra_content") or {}).get("google") or {}).get("thought_signature"):
                name = call["function"]["name"]
                raise error(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                    "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                    f"data, function call `default_api:{name}` , position {number + 1}."
                )
