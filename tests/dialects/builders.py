"""One way to say a conversation, and each dialect's way to write it. A new dialect adds a row to BUILDERS.

A conversation is a list of rounds. A builder turns it into the elements of a history and wraps them into a request; it
also writes one answer both whole and as a stream, with the same usage.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.dialects import dialect_for
from proxy.dialects.base import Dialect


@dataclass(frozen=True)
class Called:
    """A tool call and what came back."""

    text: str
    as_parts: bool = False
    is_error: bool = False
    tool: str = "read"


@dataclass(frozen=True)
class Round:
    """A user's text, one step of parallel tool calls, and the model's answer; each may have been thought about."""

    asked: str
    calls: tuple[Called, ...] = ()
    said: str = "done"
    thought: str = ""
    unknown: dict[str, Any] = field(default_factory=dict)
    """Keys that no dialect knows, put into every element."""


@dataclass(frozen=True)
class Answered:
    """An answer for both forms; `cached` and `thinking` are parts of input and output."""

    text: str = "hello"
    tools: tuple[str, ...] = ()
    input_tokens: int = 100
    cached: int = 0
    output_tokens: int = 20


@dataclass(frozen=True)
class Builder:
    path: str
    history: Callable[[list[Round]], list[dict[str, Any]]]
    request: Callable[[list[dict[str, Any]]], dict[str, Any]]
    whole: Callable[[Answered], bytes]
    stream: Callable[[Answered], bytes]
    list_name: str = "messages"
    """The field in which the history stands."""
    recording: str = ""
    """A recorded request and answers: a folder and stem in tests/fixtures, for mutation."""

    @property
    def dialect(self) -> Dialect:
        found = dialect_for(self.path)
        assert found is not None
        return found


def _call_id(number: int, place: int) -> str:
    return f"call_{number}_{place}"


ARGUMENTS = {"path": "src/app.py", "line": 3}


# ------------------------------------------------------------------------------------------------------ openai chat
def chat_history(rounds):
    found = []
    for number, turn in enumerate(rounds):
        found.append({"role": "user", "content": turn.asked, **turn.unknown})
        thought = {"reasoning_content": turn.thought} if turn.thought else {}
        if turn.calls:
            calls = [
                {
                    "id": _call_id(number, place),
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(ARGUMENTS)},
                }
                for place, call in enumerate(turn.calls)
            ]
            found.append({"role": "assistant", "content": None, "tool_calls": calls, **thought, **turn.unknown})
            for place, call in enumerate(turn.calls):
                content = [{"type": "text", "text": call.text}] if call.as_parts else call.text
                found.append(
                    {"role": "tool", "tool_call_id": _call_id(number, place), "content": content, **turn.unknown}
                )
        found.append({"role": "assistant", "content": turn.said, **thought, **turn.unknown})
    return found


def chat_request(history):
    return {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, *history],
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _chat_usage(answer):
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
    }


def chat_whole(answer):
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        for number, tool in enumerate(answer.tools)
    ]
    message = {"role": "assistant", "content": answer.text, **({"tool_calls": calls} if calls else {})}
    finish = "tool_calls" if calls else "stop"
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return json.dumps(
        {"id": "a1", "object": "chat.completion", "choices": choices, "usage": _chat_usage(answer)}
    ).encode()


def chat_stream(answer):
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": letter} for letter in answer.text]
    for number, tool in enumerate(answer.tools):
        deltas += [
            {"tool_calls": [{"index": number, "id": f"c{number}", "function": {"name": tool, "arguments": ""}}]},
            {"tool_calls": [{"index": number, "function": {"arguments": "{}"}}]},
        ]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    finish = "tool_calls" if answer.tools else "stop"
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({"choices": [], "usage": _chat_usage(answer)})
    return sse({"id": "a1", **chunk} for chunk in chunks) + b"data: [DONE]\n\n"


def sse(events, *, named=False) -> bytes:
    """Events as server-sent ones; `named` puts each one's type before it."""
    lines = []
    for event in events:
        head = f"event: {event['type']}\n" if named and "type" in event else ""
        lines.append(f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
    return b"".join(lines)


# ------------------------------------------------------------------------------------------------ anthropic messages
def messages_history(rounds):
    found = []
    for number, turn in enumerate(rounds):
        found.append({"role": "user", "content": turn.asked, **turn.unknown})
        thought = [{"type": "thinking", "thinking": turn.thought, "signature": "c2ln"}] if turn.thought else []
        if turn.calls:
            calls = [
                {"type": "tool_use", "id": _call_id(number, place), "name": call.tool, "input": ARGUMENTS}
                for place, call in enumerate(turn.calls)
            ]
            found.append({"role": "assistant", "content": [*thought, *calls], **turn.unknown})
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": _call_id(number, place),
                    **({"is_error": True} if call.is_error else {}),
                    "content": [{"type": "text", "text": call.text}] if call.as_parts else call.text,
                    **turn.unknown,
                }
                for place, call in enumerate(turn.calls)
            ]
            found.append({"role": "user", "content": results})
        found.append({"role": "assistant", "content": [*thought, {"type": "text", "text": turn.said}]})
    return found


def messages_request(history):
    return {
        "model": "m",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "messages": history,
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "stream": True,
    }


def _messages_usage(answer):
    return {
        "input_tokens": answer.input_tokens - answer.cached,
        "cache_read_input_tokens": answer.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": answer.output_tokens,
    }


def messages_whole(answer):
    content = [{"type": "text", "text": answer.text}] if answer.text else []
    content += [{"type": "tool_use", "id": f"c{n}", "name": tool, "input": {}} for n, tool in enumerate(answer.tools)]
    finish = "tool_use" if answer.tools else "end_turn"
    message = {"id": "a1", "type": "message", "content": content, "stop_reason": finish}
    return json.dumps({**message, "usage": _messages_usage(answer)}).encode()


def messages_stream(answer):
    begun = {**_messages_usage(answer), "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "a1", "content": [], "usage": begun}}]
    blocks = [("text", answer.text)] if answer.text else []
    for index, (kind, name) in enumerate([*blocks, *(("tool_use", tool) for tool in answer.tools)]):
        block = {"type": "text", "text": ""} if kind == "text" else {"type": kind, "id": "c", "name": name, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        deltas: list[dict[str, Any]] = [{"type": "input_json_delta", "partial_json": "{}"}]
        if kind == "text":
            deltas = [{"type": "text_delta", "text": letter} for letter in name]
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    finish = "tool_use" if answer.tools else "end_turn"
    usage = {"output_tokens": answer.output_tokens}
    events.append({"type": "message_delta", "delta": {"stop_reason": finish}, "usage": usage})
    return sse([*events, {"type": "ping"}, {"type": "message_stop"}], named=True)


# --------------------------------------------------------------------------------------------------- openai responses
def responses_history(rounds):
    found = []
    for number, turn in enumerate(rounds):
        found.append({"role": "user", "content": turn.asked, **turn.unknown})
        summary = [{"type": "summary_text", "text": turn.thought}]
        thought = [{"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2ln", **turn.unknown}]
        found += thought if turn.thought else []
        for place, call in enumerate(turn.calls):
            wish = {"type": "function_call", "name": call.tool, "arguments": json.dumps(ARGUMENTS)}
            found.append({**wish, "call_id": _call_id(number, place), **turn.unknown})
        for place, call in enumerate(turn.calls):
            output = [{"type": "input_text", "text": call.text}] if call.as_parts else call.text
            made = {"type": "function_call_output", "call_id": _call_id(number, place), "output": output}
            found.append({**made, **({"status": "failed"} if call.is_error else {}), **turn.unknown})
        content = [{"type": "output_text", "text": turn.said, "annotations": []}]
        found.append({"type": "message", "role": "assistant", "content": content, **turn.unknown})
    return found


def responses_request(history):
    return {
        "model": "m",
        "instructions": "be brief",
        "input": [{"role": "developer", "content": "be kind"}, *history],
        "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
        "stream": True,
    }


def _response(answer):
    content = [{"type": "output_text", "text": answer.text, "annotations": []}]
    output: list[dict[str, Any]] = [{"type": "message", "role": "assistant", "content": content}]
    output += [
        {"type": "function_call", "call_id": f"c{number}", "name": tool, "arguments": "{}"}
        for number, tool in enumerate(answer.tools)
    ]
    usage = {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached},
        "output_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    return {"id": "a1", "object": "response", "status": "completed", "output": output, "usage": usage}


def responses_whole(answer):
    return json.dumps(_response(answer)).encode()


def responses_stream(answer):
    response = _response(answer)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    events += [{"type": "response.output_text.delta", "delta": letter} for letter in answer.text]
    events += [{"type": "response.output_item.done", "item": item} for item in response["output"]]
    return sse([*events, {"type": "response.completed", "response": {**response, "output": []}}], named=True)


# ----------------------------------------------------------------------------------------------------------- gemini
def gemini_history(rounds):
    found = []
    for turn in rounds:
        found.append({"role": "user", "parts": [{"text": turn.asked, **turn.unknown}]})
        thought = [{"text": turn.thought, "thought": True, "thoughtSignature": "c2ln"}] if turn.thought else []
        if turn.calls:
            calls = [{"functionCall": {"name": call.tool, "args": ARGUMENTS}, **turn.unknown} for call in turn.calls]
            found.append({"role": "model", "parts": [*thought, *calls]})
            responses = []
            for call in turn.calls:
                response = {"error" if call.is_error and call.text else "output": call.text}
                response |= {"exit_code": 0} if call.as_parts else {}
                made = {"name": call.tool, "response": response, **turn.unknown}
                responses.append({"function_response" if call.as_parts else "functionResponse": made})
            found.append({"role": "user", "parts": responses})
        found.append({"role": "model", "parts": [*thought, {"text": turn.said, **turn.unknown}]})
    return found


def gemini_request(history):
    return {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": history,
        "tools": [{"functionDeclarations": [{"name": "read", "parameters": {"type": "OBJECT"}}]}],
        "generationConfig": {"maxOutputTokens": 500},
    }


def _gemini_chunk(parts, usage, **more):
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **more}], "usageMetadata": usage}


def _gemini_usage(answer):
    return {
        "promptTokenCount": answer.input_tokens,
        "cachedContentTokenCount": answer.cached,
        "candidatesTokenCount": answer.output_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
    }


def _gemini_calls(answer):
    return [{"functionCall": {"name": tool, "args": {}}} for tool in answer.tools]


def gemini_whole(answer):
    parts = [{"text": answer.text}, *_gemini_calls(answer)]
    return json.dumps(_gemini_chunk(parts, _gemini_usage(answer), finishReason="STOP"), indent=2).encode()


def gemini_stream(answer):
    parts: list[dict[str, Any]] = [{"text": letter} for letter in answer.text]
    begun = {"promptTokenCount": answer.input_tokens, "totalTokenCount": answer.input_tokens}
    chunks = [_gemini_chunk([part], begun) for part in [*parts, *_gemini_calls(answer)]]
    return sse([*chunks, _gemini_chunk([{"text": ""}], _gemini_usage(answer), finishReason="STOP")])


BUILDERS = {
    "openai_chat": Builder(
        path="/v1/chat/completions",
        history=chat_history,
        request=chat_request,
        whole=chat_whole,
        stream=chat_stream,
        recording="openrouter-chat/testopenrouterthinking-anthropic-thinking-streaming.t2",
    ),
    "openai_responses": Builder(
        path="/v1/responses",
        history=responses_history,
        request=responses_request,
        whole=responses_whole,
        stream=responses_stream,
        list_name="input",
        recording="bedrock-mantle-responses/reused-tool-call-ids-stream.t3",
    ),
    "anthropic_messages": Builder(
        path="/v1/messages",
        history=messages_history,
        request=messages_request,
        whole=messages_whole,
        stream=messages_stream,
        recording="anthropic-messages/testanthropicthinkingwithcachecontrol-claude-sonnet-4-thinking-streaming.t2",
    ),
    "gemini": Builder(
        path="/v1beta/models/m:streamGenerateContent",
        history=gemini_history,
        request=gemini_request,
        whole=gemini_whole,
        stream=gemini_stream,
        list_name="contents",
        recording="gemini-generate/code-execution-stream",
    ),
}
