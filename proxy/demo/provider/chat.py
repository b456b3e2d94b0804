"""OpenAI chat completions: `POST /v1/chat/completions`.

Structure rules and their texts as the vendor's servers send them; usage as in the API reference: `usage: null` on every
chunk and one last chunk without choices when `stream_options.include_usage` is set, nothing at all otherwise.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.demo.provider.asked import (
    OPENAI_ENVELOPE,
    Asked,
    Refused,
    Reply,
    Request,
    Unit,
    pieces,
    sse,
    tools_unit,
    unit,
)
from proxy.demo.provider.chat_rules import checked, error


class Chat:
    """The API as the provider serves it."""

    envelope = OPENAI_ENVELOPE

    def asked(self, request: Request) -> Asked:
        """Check roles, contents and pairs, and read the body."""
        body, rules = request.body, request.rules
        messages = checked(body, rules)
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
                    **_signed(reply, index),
                }
                for index, call in enumerate(answer.calls)
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


def _signed(reply: Reply, index: int) -> dict[str, Any]:
    """What the first of an answer's calls carries beside its own where signatures must come back."""
    signs = reply.rules.signatures_back and not index
    return {"extra_content": {"google": {"thought_signature": reply.seal}}} if signs else {}


def _unit(message: Mapping[str, Any], media_tokens: int) -> Unit:
    texts = [text_of(message)]
    overhead = OPENAI_ENVELOPE.message
    if message.get("reasoning_content"):
        texts.append(message["reasoning_content"])
    for call in message.get("tool_calls") or ():
        texts += [call["function"]["name"], call["function"]["arguments"]]
        overhead += OPENAI_ENVELOPE.call
    if message["role"] == "tool":
        overhead += OPENAI_ENVELOPE.result
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
        opening = {"index": index, "id": call.call_id, "type": "function", "function": function}
        yield {"tool_calls": [{**opening, **_signed(reply, index)}]}
        for piece in pieces(call.arguments, reply.piece):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
