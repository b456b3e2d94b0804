"""Anthropic Messages: `POST /v1/messages` and `/v1/messages/count_tokens`.

`usage.input_tokens` leaves out what was read from or written to the cache, and only what stands before a
`cache_control` mark is cached. With `Rules.prefix_check`, thinking is signed and bound to the system text, the tools
and every earlier message ("Prefix checks on thinking blocks"): an edit before a block makes it and all later blocks
invalid. That ends in a 400, or in dropped blocks where the request carries the documented option and its beta header.

The envelope is what recorded calls show when their texts are taken off (claude-3-7, sonnet-4, sonnet-4-5, opus-4-5 and
opus-4-6; some 800 turns). A message that follows an answer adds 3 or 4 tokens for both. An answer with one call counts 40 to
56 output tokens more than its texts. That answer comes back at its output count, and its result adds 12 tokens, of each
further result in the same message 38 to 46. "What is 2+2?" alone is 13 tokens. Tools bring a system prompt of 346 tokens
(docs "Tool use", pricing, 2025-12). Calls that code makes and their results add nothing: "Programmatic tool calling", usage,
and Anthropic's cookbook of that name (sonnet-4-6), where the input grows by the answer's output and the code's own output.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.demo.provider import messages_rules as rules
from proxy.demo.provider.asked import (
    Asked,
    Envelope,
    Refused,
    Reply,
    Request,
    Unit,
    chain,
    parsed,
    pieces,
    seal,
    sse,
    tools_unit,
    unit,
)
from proxy.wire.body import dumps, loads

ENVELOPE = Envelope(message=2, call=45, result=8, request=4, tools=346, sequel=32, arguments=parsed)

_DROP_BETA = "thinking-binding-controls-2026-08-01"


class Messages:
    """The API as the provider serves it."""

    envelope = ENVELOPE

    def asked(self, request: Request) -> Asked:
        """Check the structure, the pairs and the signatures, and read the body."""
        body = request.body
        messages = rules.checked(body, counting=request.arguments["endpoint"] == "count")
        head = (*tools_unit(body.get("tools"), ENVELOPE.tools), *_system_unit(body.get("system")))
        bound = chain([*head, *(unit(_in_blocks(message), ()) for message in messages)])
        messages, dropped = _without_invalid_thinking(messages, bound, len(head), request)
        last = messages[-1]
        return Asked(
            body=body,
            model=str(body["model"]),
            units=(*head, *(_unit(message, request.rules.media_tokens) for message in rules.prompt_of(messages))),
            stream=bool(body.get("stream")),
            assistants=sum(message["role"] == "assistant" for message in messages),
            last_text=text_of(last),
            last_is_user=last["role"] == "user" and not rules.results_in(last),
            tools=tuple(tool["name"] for tool in body.get("tools") or ()),
            marks_cache="cache_control" in body,
            bound=bound[-1],
            transformations=dropped,
        )

    def counted(self, tokens: int) -> Any:
        """What `count_tokens` answers."""
        return {"input_tokens": tokens}

    def overflow(self, asked: Asked, tokens: int, window: int) -> Refused:
        """400, with the tokens and the maximum."""
        del asked
        return rules.error(f"prompt is too long: {tokens} tokens > {window} maximum")

    def broken(self) -> Refused:
        """400 for what is not a JSON object."""
        return rules.error("The request body is not valid JSON")

    def whole(self, reply: Reply) -> Any:
        """A `message`."""
        return {**_message(reply, _blocks(reply)), "stop_reason": _stop(reply), "usage": _usage(reply)}

    def events(self, reply: Reply) -> Iterator[bytes]:
        """From `message_start` to `message_stop`, with the `ping` that every recorded stream has."""
        start = {**_message(reply, []), "usage": {**_usage(reply), "output_tokens": min(1, reply.bill.output)}}
        yield _event({"type": "message_start", "message": start})
        for index, block in enumerate(_blocks(reply)):
            yield _event({"type": "content_block_start", "index": index, "content_block": _opening(block)})
            if not index:
                yield _event({"type": "ping"})
            for delta in _deltas(block, reply.piece):
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": delta, "usage": _usage(reply)})
        yield _event({"type": "message_stop"})

    def content_type(self, reply: Reply) -> str:
        """Server-sent events."""
        del reply
        return "text/event-stream; charset=utf-8"


def text_of(message: Mapping[str, Any]) -> str:
    """All visible text of a message, that of tool results included."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(text for block in content for text in _visible(block))


def _visible(block: Mapping[str, Any]) -> Iterator[str]:
    if block["type"] == "text":
        yield block["text"]
    elif block["type"] == "tool_result":
        content = block.get("content") or ""
        yield content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _system_unit(system: Any) -> tuple[Unit, ...]:
    if not system:
        return ()
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    return (unit(rules.blocks_of({"content": system}), texts, ENVELOPE.message),)


def _unit(message: Mapping[str, Any], media_tokens: int) -> Unit:
    texts: list[str] = []
    overhead = ENVELOPE.message + ENVELOPE.sequel * max(0, len(rules.results_in(message)) - 1)
    for block in rules.blocks_of(message):
        texts += _visible(block)
        match block["type"]:
            case "thinking":
                texts.append(block["thinking"])
            case "tool_use" | "server_tool_use":
                texts += [block["name"], dumps(block["input"]).decode()]
                overhead += ENVELOPE.call
            case "tool_result":
                overhead += ENVELOPE.result
                parts = block.get("content")
                if isinstance(parts, list):
                    overhead += media_tokens * sum(part.get("type") == "image" for part in parts)
            case "code_execution_tool_result":
                texts += [block["content"].get("stdout", ""), block["content"].get("stderr", "")]
                overhead += ENVELOPE.result
            case "image" | "document":
                overhead += media_tokens
            case _:
                pass
    return unit(_in_blocks(message), texts, overhead)


def _in_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message as it is compared: a string is short for one text block (API reference, "Messages")."""
    return {**message, "content": rules.blocks_of(message)}


def _without_invalid_thinking(
    messages: Sequence[Mapping[str, Any]], bound: Sequence[bytes], head: int, request: Request
) -> tuple[Sequence[Mapping[str, Any]], tuple[Mapping[str, Any], ...]]:
    """The messages that the model sees, and what was dropped from them; raises Refused where nothing may be."""
    if not request.rules.prefix_check:
        return messages, ()
    binding = (request.body.get("thinking") or {}).get("block_binding")
    if binding and _DROP_BETA not in request.headers.get("anthropic-beta", ""):
        raise rules.error("thinking.adaptive.block_binding: Extra inputs are not permitted")
    drop = (binding or {}).get("prefix_mismatch_behavior") == "drop_block"
    kept, dropped = [], []
    for number, message in enumerate(messages):
        before = head + number - 1
        wanted = seal(bound[before]) if before >= 0 else ""
        blocks = []
        for position, block in enumerate(rules.blocks_of(message)):
            if block["type"] != "thinking" or block.get("signature") == wanted:
                blocks.append(block)
                continue
            where = f"messages.{number}.content.{position}"
            if not drop:
                raise rules.error(
                    f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
                    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                )
            dropped.append({"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": where})
        kept.append({**message, "content": blocks} if len(blocks) < len(rules.blocks_of(message)) else message)
    return kept, tuple(dropped)


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    answer = reply.answer
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": reply.seal})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    for call in answer.calls:
        given = loads(call.arguments.encode() or b"{}")
        given = given if isinstance(given, dict) else {"value": given}
        blocks.append({"type": "tool_use", "id": call.call_id, "name": call.name, "input": given})
    return blocks


def _opening(block: Mapping[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "text":
            return {"type": "text", "text": ""}
        case _:
            return {**block, "input": {}}


def _deltas(block: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            for piece in pieces(block["thinking"], size):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for piece in pieces(block["text"], size):
                yield {"type": "text_delta", "text": piece}
        case _:
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in pieces(dumps(block["input"]).decode(), size):
                yield {"type": "input_json_delta", "partial_json": piece}


def _event(value: Mapping[str, Any]) -> bytes:
    # The vendor pads every event with spaces before the closing brace.
    raw = dumps(value)
    return sse(raw[:-1] + b" " * (len(raw) % 7) + b"}", str(value["type"]))


def _stop(reply: Reply) -> str:
    if reply.answer.finish:
        return "max_tokens"
    return "tool_use" if reply.answer.calls else "end_turn"


def _usage(reply: Reply) -> dict[str, Any]:
    bill = reply.bill
    return {
        "input_tokens": bill.input - bill.read - bill.written,
        "cache_creation_input_tokens": bill.written,
        "cache_read_input_tokens": bill.read,
        "cache_creation": {"ephemeral_5m_input_tokens": bill.written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": bill.output,
        "service_tier": "standard",
    }


def _message(reply: Reply, content: Sequence[Any]) -> dict[str, Any]:
    message = {
        "id": f"msg_demo{reply.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": reply.asked.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
    }
    if reply.asked.transformations:
        message["input_transformations"] = list(reply.asked.transformations)
    return message
