"""A recorded session in each wire format: the requests that an agent of that format would have sent.

A speaker turns the first messages of a session (OpenAI chat format) into a request, and an answer's stream into what was
said. It speaks as real clients do: Messages with moving cache marks, results merged into one user message.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MODEL = "demo-model"
MARK = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """What an answer came to, comparable between two servers."""

    text: str
    calls: tuple[tuple[str, str, str], ...]
    input_tokens: int
    cached_tokens: int


class Chat:
    path = "/v1/chat/completions"
    history = "messages"

    def body(self, tools: list, messages: list) -> dict:
        body = {"model": MODEL, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        return body | ({"tools": tools} if tools else {})

    def spoken(self, events: list[dict]) -> Spoken:
        text, calls, usage = "", {}, {}
        for event in events:
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls") or ():
                    known = calls.setdefault(call["index"], [call.get("id"), call["function"].get("name"), ""])
                    known[2] += call["function"]["arguments"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return Spoken(text, tuple(map(tuple, calls.values())), usage["prompt_tokens"], cached)


class Responses:
    path = "/v1/responses"
    history = "input"

    def body(self, tools: list, messages: list) -> dict:
        items = [item for message in messages for item in self._items(message)]
        body = {"model": MODEL, "input": items, "stream": True, "store": False}
        flat = [{"type": "function", **tool["function"]} for tool in tools]
        return body | ({"tools": flat} if flat else {})

    def _items(self, message: dict) -> Iterator[dict]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}
            return
        if content:
            kind = "output_text" if role == "assistant" else "input_text"
            yield {"type": "message", "role": role, "content": [{"type": kind, "text": content}]}
        for call in message.get("tool_calls") or ():
            yield {"type": "function_call", "call_id": call["id"], **call["function"]}

    def spoken(self, events: list[dict]) -> Spoken:
        answer = events[-1]["response"]
        text = "".join(item["content"][0]["text"] for item in answer["output"] if item["type"] == "message")
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        told = tuple((item["call_id"], item["name"], item["arguments"]) for item in calls)
        usage = answer["usage"]
        return Spoken(text, told, usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"])


class Messages:
    path = "/v1/messages"
    history = "messages"

    def body(self, tools: list, messages: list) -> dict:
        system, rest = _leading_system(messages)
        turns: list[dict] = []
        for message in _with_unique_ids(rest):
            role, blocks = self._blocks(message)
            if turns and turns[-1]["role"] == role and (role == "user" or message["role"] == "tool"):
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
        for turn in [turn for turn in turns if turn["role"] == "user"][-2:]:
            turn["content"][-1] = {**turn["content"][-1], "cache_control": MARK}
        body = {"model": MODEL, "max_tokens": 8192, "messages": turns, "stream": True}
        if system:
            body["system"] = [{"type": "text", "text": system, "cache_control": MARK}]
        if tools:
            functions = [tool["function"] for tool in tools]
            body["tools"] = [{"name": one["name"], "input_schema": one.get("parameters") or {}} for one in functions]
        return body

    def _blocks(self, message: dict) -> tuple[str, list[dict]]:
        content = message.get("content")
        if message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content or "(empty)"}
            return "user", [result]
        blocks: list[dict] = [{"type": "text", "text": content}] if (content or "").strip() else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            given = {"type": "tool_use", "id": call["id"], "name": function["name"]}
            blocks.append({**given, "input": _object(function["arguments"])})
        return "assistant" if message["role"] == "assistant" else "user", blocks or [{"type": "text", "text": "-"}]

    def spoken(self, events: list[dict]) -> Spoken:
        text, calls, usage = "", [], {}
        for event in events:
            match event["type"]:
                case "message_start":
                    usage = dict(event["message"]["usage"])
                case "content_block_start" if event["content_block"]["type"] == "tool_use":
                    calls.append([event["content_block"]["id"], event["content_block"]["name"], ""])
                case "content_block_delta" if event["delta"]["type"] == "text_delta":
                    text += event["delta"]["text"]
                case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                    calls[-1][2] += event["delta"]["partial_json"]
                case "message_delta":
                    usage |= event["usage"]
        cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return Spoken(text, tuple(map(tuple, calls)), usage["input_tokens"] + cached + written, cached)


class Gemini:
    path = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
    history = "contents"

    def body(self, tools: list, messages: list) -> dict:
        system, rest = _leading_system(messages)
        names = {call["id"]: call["function"]["name"] for one in rest for call in one.get("tool_calls") or ()}
        contents: list[dict] = []
        for message in rest:
            role, parts = self._parts(message, names)
            merges = message["role"] == "tool" and contents and "functionResponse" in contents[-1]["parts"][0]
            if merges:
                contents[-1]["parts"] += parts
            else:
                contents.append({"role": role, "parts": parts})
        body: dict[str, Any] = {"contents": contents}
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        if tools:
            body["tools"] = [{"functionDeclarations": [tool["function"] for tool in tools]}]
        return body

    def _parts(self, message: dict, names: dict[str, str]) -> tuple[str, list[dict]]:
        content = message.get("content")
        if message["role"] == "tool":
            response = {"name": names[message["tool_call_id"]], "response": {"output": content or ""}}
            return "user", [{"functionResponse": response}]
        parts: list[dict] = [{"text": content}] if content else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            parts.append({"functionCall": {"name": function["name"], "args": _object(function["arguments"])}})
        return "model" if message["role"] == "assistant" else "user", parts or [{"text": ""}]

    def spoken(self, events: list[dict]) -> Spoken:
        text, calls = "", []
        for event in events:
            for part in event["candidates"][0]["content"]["parts"]:
                text += part.get("text", "")
                if "functionCall" in part:
                    call = part["functionCall"]
                    calls.append((call["id"], call["name"], json.dumps(call["args"])))
        usage = events[-1]["usageMetadata"]
        cached = usage.get("cachedContentTokenCount", 0)
        return Spoken(text, tuple(calls), usage["promptTokenCount"], cached)


SPEAKERS = {"chat": Chat(), "responses": Responses(), "messages": Messages(), "gemini": Gemini()}


def _leading_system(messages: list) -> tuple[str, list]:
    """System text before the conversation, and the rest; Messages and Gemini have no system message inside it."""
    count = 0
    while count < len(messages) and messages[count]["role"] == "system":
        count += 1
    return "\n\n".join(message["content"] for message in messages[:count]), messages[count:]


def _with_unique_ids(messages: list) -> Iterator[dict]:
    """The messages with call ids numbered by their place: some logs use an id again, which Messages refuses."""
    current: dict[str, str] = {}
    for index, message in enumerate(messages):
        if message.get("tool_calls"):
            current |= {call["id"]: f"{call['id']}-{index}" for call in message["tool_calls"]}
            yield {**message, "tool_calls": [{**call, "id": current[call["id"]]} for call in message["tool_calls"]]}
        elif message["role"] == "tool":
            yield {**message, "tool_call_id": current[message["tool_call_id"]]}
        else:
            yield message


def _object(text: str) -> dict:
    value = json.loads(text or "{}")
    return value if isinstance(value, dict) else {"value": value}
