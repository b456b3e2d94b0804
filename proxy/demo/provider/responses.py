"""OpenAI Responses: `POST /v1/responses` and `/v1/responses/input_tokens`.

Usage comes inside `response.completed`; there is no `[DONE]`. Answers are stored unless `store` is false, so that a
later request can name them as `previous_response_id`. With `Rules.prefix_check`, reasoning items behind a changed
prefix are dropped without an error and named in `input_transformations` (guide "Keep the prefix unchanged").
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.demo.provider import responses_items as items
from proxy.demo.provider.asked import (
    OPENAI_ENVELOPE,
    Asked,
    Refused,
    Reply,
    Request,
    chain,
    pieces,
    seal,
    sse,
    tools_unit,
    unit,
)
from proxy.demo.provider.chat_rules import error

_COUNTED = frozenset(
    {
        "conversation", "input", "instructions", "model", "parallel_tool_calls", "personality", "previous_response_id",
        "reasoning", "text", "tool_choice", "tools", "truncation",
    }
)  # fmt: skip
"""What `input_tokens` takes (API reference, "Get input token counts", 2026-11)."""


class Responses:
    """The API as the provider serves it; keeps the answers that it stored."""

    envelope = OPENAI_ENVELOPE

    def __init__(self) -> None:
        self._stored: dict[str, list[Mapping[str, Any]]] = {}
        self._reasoning_of: dict[str, str] = {}
        """Item id → id of the reasoning item that must stand before it."""

    def asked(self, request: Request) -> Asked:
        """Check the structure and the pairs, and read the body."""
        body = request.body
        if not isinstance(body.get("model"), str):
            raise error("Missing required parameter: 'model'.", code="missing_required_parameter", param="model")
        if request.arguments["endpoint"] == "count":
            for name in sorted(body.keys() - _COUNTED):
                raise error(f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
        history = self._history(body)
        items.check(history, self._reasoning_of)
        instructions = body.get("instructions")
        head = (*tools_unit(body.get("tools")), *((unit(instructions, (instructions,)),) if instructions else ()))
        bound = chain([*head, *(unit(item, ()) for item in history)])
        checked = request.rules.prefix_check
        kept, dropped = _without_foreign_reasoning(history, bound, len(head)) if checked else (history, ())
        last = kept[-1]
        return Asked(
            body=body,
            model=body["model"],
            units=(*head, *(items.unit_of(item, request.rules.media_tokens) for item in kept)),
            stream=bool(body.get("stream")),
            assistants=items.assistant_turns(kept),
            last_text=items.text_of(last),
            last_is_user=last.get("role") == "user",
            tools=tuple(tool["name"] for tool in body.get("tools") or () if tool.get("type") == "function"),
            bound=bound[-1],
            transformations=dropped,
        )

    def counted(self, tokens: int) -> Any:
        """What `input_tokens` answers."""
        return {"object": "response.input_tokens", "input_tokens": tokens}

    def overflow(self, asked: Asked, tokens: int, window: int) -> Refused:
        """400, or the same as events after a 200 where the request streams."""
        del tokens, window
        text = "Your input exceeds the context window of this model. Please adjust your input and try again."
        code = "context_length_exceeded"
        refused = error(text, code=code, param="input")
        if asked.stream:
            failed: dict[str, Any] = {
                "object": "response",
                "status": "failed",
                "output": [],
                "usage": None,
                "model": asked.model,
            }
            told = {"type": "invalid_request_error", "code": code, "message": text, "param": "input"}
            values: tuple[dict[str, Any], ...] = (
                {"type": "response.created", "response": {**failed, "status": "in_progress"}},
                {"type": "response.in_progress", "response": {**failed, "status": "in_progress"}},
                {"type": "error", "error": told},
                {"type": "response.failed", "response": {**failed, "error": {"code": code, "message": text}}},
            )
            refused.events = tuple(_numbered(values))
        return refused

    def broken(self) -> Refused:
        """400 for what is not a JSON object."""
        return error("We could not parse the JSON body of your request.")

    def whole(self, reply: Reply) -> Any:
        """A `response`."""
        output = self._remembered(reply)
        return _response(reply, "completed", output)

    def events(self, reply: Reply) -> Iterator[bytes]:
        """From `response.created` to `response.completed`, numbered."""
        return _numbered(self._values(reply))

    def content_type(self, reply: Reply) -> str:
        """Server-sent events."""
        del reply
        return "text/event-stream; charset=utf-8"

    def _values(self, reply: Reply) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": _response(reply, "in_progress", [])}
        yield {"type": "response.in_progress", "response": _response(reply, "in_progress", [])}
        output = self._remembered(reply)
        for index, item in enumerate(output):
            yield from _item_events(index, item, reply.piece)
        done = _response(reply, "incomplete" if reply.answer.finish else "completed", output)
        yield {"type": f"response.{done['status']}", "response": done}

    def _history(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        given = body.get("input", [])
        new = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        before = body.get("previous_response_id")
        if before is None:
            if not new:
                raise error("Missing required parameter: 'input'.", code="missing_required_parameter", param="input")
            return new
        if before not in self._stored:
            raise error(
                f"Previous response with id '{before}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return [*self._stored[before], *new]

    def _remembered(self, reply: Reply) -> list[dict[str, Any]]:
        output = items.output(reply)
        thought = ""
        for item in output:
            if item["type"] == "reasoning":
                thought = item["id"]
            elif thought:
                self._reasoning_of[item["id"]] = thought
        if reply.asked.body.get("store") is not False:
            self._stored[_id(reply)] = [*self._history(reply.asked.body), *output]
        return output


def _without_foreign_reasoning(
    history: Sequence[Mapping[str, Any]], bound: Sequence[bytes], head: int
) -> tuple[list[Mapping[str, Any]], tuple[Mapping[str, Any], ...]]:
    kept, dropped = [], []
    for number, item in enumerate(history):
        before = head + number - 1
        sealed = str(item.get("encrypted_content") or "").partition(".")[0]
        if item.get("type") == "reasoning" and sealed and (before < 0 or sealed != seal(bound[before])):
            dropped.append({"type": "reasoning_dropped", "reason": "prefix_mismatch", "id": item.get("id")})
        else:
            kept.append(item)
    return kept, tuple(dropped)


def _item_events(index: int, item: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    opened = {"status": "in_progress"}
    match item["type"]:
        case "message":
            text = item["content"][0]["text"]
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            inner = {**place, "content_index": 0}
            yield _added(index, {**item, **opened, "content": []})
            yield {"type": "response.content_part.added", **inner, "part": part}
            for piece in pieces(text, size):
                yield {"type": "response.output_text.delta", **inner, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **inner, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **inner, "part": {**part, "text": text}}
        case "function_call":
            yield _added(index, {**item, **opened, "arguments": ""})
            for piece in pieces(item["arguments"], size):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        case _:
            yield _added(index, item)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _added(index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _numbered(values: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> Iterator[bytes]:
    for number, value in enumerate(values):
        yield sse({**value, "sequence_number": number}, value["type"])


def _id(reply: Reply) -> str:
    return f"resp_demo{reply.number:06d}"


def _response(reply: Reply, status: str, output: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    body = reply.asked.body
    made = {
        "id": _id(reply),
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": reply.asked.model,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if status == "in_progress" else _usage(reply),
    }
    if reply.asked.transformations:
        made["input_transformations"] = list(reply.asked.transformations)
    return made


def _usage(reply: Reply) -> dict[str, Any]:
    bill = reply.bill
    details = {"cached_tokens": bill.read}
    if reply.rules.cache_writes:
        details["cache_write_tokens"] = bill.written
    return {
        "input_tokens": bill.input,
        "input_tokens_details": details,
        "output_tokens": bill.output,
        "output_tokens_details": {"reasoning_tokens": bill.reasoning},
        "total_tokens": bill.input + bill.output,
    }
