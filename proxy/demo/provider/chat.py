"""OpenAI chat completions: `POST /v1/chat/completions`.

Structure rules and their texts as the vendor's servers send them; usage as in the API reference: `usage: null` on every
chunk and one last chunk without choices when `stream_options.include_usage` is set, nothing at all otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.demo.provider.asked import (
    ID_OVERHEAD,
    MESSAGE_OVERHEAD,
    Asked,
    Refused,
    Reply,
    Request,
    Rules,
    Unit,
    pieces,
    sse,
    tools_unit,
    unit,
)

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = {"tool": ("text", "image_url"), "user": ("text", "image_url", "input_audio", "file")}


def error(message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> Refused:
    """An error in OpenAI's shape."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return Refused(status, body)


class Chat:
    """The API as the provider serves it."""

    def asked(self, request: Request) -> Asked:
        """Check roles, contents and pairs, and read the body."""
        body, rules = request.body, request.rules
        messages = _checked(body, rules)
        check_pairs(messages)
        _check_reasoning(messages, rules.reasoning_back)
        last = messages[-1]
        return Asked(
            body=body,
            model=str(body["model"]),
            units=(*tools_unit(body.get("tools")), *(_unit(message, rules.media_tokens) for message in messages)),
            stream=bool(body.get("stream")),
            assistants=sum(message["role"] == "assistant" for message in messages),
            last_text=text_of(last),
            last_is_user=last["role"] == "user",
            tools=tuple(tool["function"]["name"] for tool in body.get("tools") or () if "function" in tool),
        )

    def counted(self, tokens: int) -> Any:
        """Chat completions have no count endpoint."""
        raise Refused(404, {"error": {"message": f"no count endpoint ({tokens})", "type": "invalid_request_error"}})

    def overflow(self, asked: Asked, tokens: int, window: int) -> Refused:
        """400 `context_length_exceeded`."""
        del asked
        return error(
            f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
            param="messages",
        )

    def broken(self) -> Refused:
        """400 for what is not JSON."""
        return error(
            "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP "
            "library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
        )

    def whole(self, reply: Reply) -> Any:
        """A `chat.completion`."""
        answer = reply.answer
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in answer.calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return {**_head(reply, "chat.completion"), "choices": [choice], "usage": usage(reply)}

    def events(self, reply: Reply) -> Iterator[bytes]:
        """`chat.completion.chunk`s, then `[DONE]`."""
        wanted = bool((reply.asked.body.get("stream_options") or {}).get("include_usage"))
        head = _head(reply, "chat.completion.chunk")

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            value = {**head, "choices": [choice]}
            if finish and reply.rules.usage_always:
                value["usage"] = usage(reply)
            elif wanted:
                value["usage"] = None
            return sse(value)

        yield chunk({"role": "assistant", "content": None if reply.answer.calls else "", "refusal": None})
        for delta in _deltas(reply):
            yield chunk(delta)
        yield chunk({}, _finish(reply))
        if wanted:
            yield sse({**head, "choices": [], "usage": usage(reply)})
        yield sse(b"[DONE]")

    def content_type(self, reply: Reply) -> str:
        """Server-sent events."""
        del reply
        return "text/event-stream; charset=utf-8"


def usage(reply: Reply) -> dict[str, Any]:
    """The usage object of chat completions."""
    bill = reply.bill
    details = {"cached_tokens": bill.read, "audio_tokens": 0}
    if reply.rules.cache_writes:
        details["cache_write_tokens"] = bill.written
    return {
        "prompt_tokens": bill.input,
        "completion_tokens": bill.output,
        "total_tokens": bill.input + bill.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {
            "reasoning_tokens": bill.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def text_of(message: Mapping[str, Any]) -> str:
    """All text of a message's content."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")


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


def _checked(body: Mapping[str, Any], rules: Rules) -> Sequence[Mapping[str, Any]]:
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
    """DeepSeek and Kimi in thinking mode want `reasoning_content` back with every tool call."""
    if not rule:
        return
    for number, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("tool_calls") and not message.get("reasoning_content"):
            if rule == "deepseek":
                raise error("The `reasoning_content` in the thinking mode must be passed back to the API.")
            raise error(
                f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {number}"
            )


def _unit(message: Mapping[str, Any], media_tokens: int) -> Unit:
    texts = [text_of(message)]
    overhead = MESSAGE_OVERHEAD
    if message.get("reasoning_content"):
        texts.append(message["reasoning_content"])
    for call in message.get("tool_calls") or ():
        texts += [call["function"]["name"], call["function"]["arguments"]]
        overhead += ID_OVERHEAD
    if message["role"] == "tool":
        overhead += ID_OVERHEAD
    if isinstance(message.get("content"), list):
        overhead += media_tokens * sum(part.get("type") not in ("text", "refusal") for part in message["content"])
    return unit(message, texts, overhead)


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-demo{reply.number:06d}",
        "object": kind,
        "created": reply.created,
        "model": reply.asked.model,
        "service_tier": "default",
        "system_fingerprint": "fp_loopback",
    }


def _finish(reply: Reply) -> str:
    return reply.answer.finish or ("tool_calls" if reply.answer.calls else "stop")


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    answer = reply.answer
    for piece in pieces(answer.reasoning, reply.piece):
        yield {"reasoning_content": piece}
    for piece in pieces(answer.text, reply.piece):
        yield {"content": piece}
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.call_id, "type": "function", "function": function}]}
        for piece in pieces(call.arguments, reply.piece):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
