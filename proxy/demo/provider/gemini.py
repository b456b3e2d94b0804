"""Gemini: `POST /v1beta/models/M:generateContent`, `:streamGenerateContent` and `:countTokens`.

Usage stands on every chunk and grows; `candidatesTokenCount` leaves out thoughts. With `?alt=sse` a stream is
server-sent events with CRLF, without it one JSON array that is written bit by bit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.demo.provider.asked import (
    Asked,
    Envelope,
    Refused,
    Reply,
    Request,
    Unit,
    parsed,
    pieces,
    sse,
    tools_unit,
    unit,
)
from proxy.wire.body import dumps, loads

# Recorded (gemini-2.0-flash): a call of 9 tokens of JSON and a response of 7 add 12, of 8 and 12 add 15.
ENVELOPE = Envelope(message=1, call=0, result=0, request=0, arguments=parsed)


def error(message: str, *, status: int = 400, kind: str = "INVALID_ARGUMENT") -> Refused:
    """An error in Google's shape."""
    return Refused(status, {"error": {"code": status, "message": message, "status": kind}})


class Gemini:
    """The API as the provider serves it."""

    envelope = ENVELOPE

    def asked(self, request: Request) -> Asked:
        """Check roles, turns and signatures, and read the body."""
        body = _whole(request) if request.arguments["endpoint"] == "count" else request.body
        contents = _checked(body)
        if request.rules.signatures_back:
            _check_signatures(contents)
        system = body.get("systemInstruction") or body.get("system_instruction")
        tools = body.get("tools") or ()
        last = contents[-1]
        units = [*tools_unit(tools), *([_unit(system, 0)] if system else [])]
        return Asked(
            body=body,
            model=request.arguments["model"],
            units=(*units, *(_unit(content, request.rules.media_tokens) for content in contents)),
            stream=request.arguments["verb"] == "streamGenerateContent",
            assistants=sum(content.get("role") == "model" for content in contents),
            last_text="\n".join(_texts(last)),
            last_is_user=last.get("role", "user") == "user" and not _having(last, "functionResponse"),
            tools=tuple(one["name"] for tool in tools for one in tool.get("functionDeclarations") or ()),
        )

    def counted(self, tokens: int) -> Any:
        """What `countTokens` answers."""
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}

    def overflow(self, asked: Asked, tokens: int, window: int) -> Refused:
        """400 INVALID_ARGUMENT, with the tokens and the maximum."""
        del asked
        return error(
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).",
        )

    def broken(self) -> Refused:
        """400 for what is not a JSON object."""
        return error("Invalid JSON payload received. Unexpected end of string.")

    def whole(self, reply: Reply) -> Any:
        """One `GenerateContentResponse`."""
        return _chunk(reply, _parts(reply), written=1.0, last=True)

    def events(self, reply: Reply) -> Iterator[bytes]:
        """Responses with growing usage, as events or as the elements of one array."""
        parts = list(_streamed(reply))
        values = [
            _chunk(reply, [part], written=(number + 1) / len(parts), last=number + 1 == len(parts))
            for number, part in enumerate(parts)
        ]
        if reply.arguments.get("alt") == "sse":
            yield from (sse(value, end=b"\r\n") for value in values)
            return
        for number, value in enumerate(values):
            yield (b",\r\n" if number else b"[") + dumps(value) + b"\n"
        yield b"]"

    def content_type(self, reply: Reply) -> str:
        """Events or a JSON array."""
        return "text/event-stream" if reply.arguments.get("alt") == "sse" else "application/json; charset=UTF-8"


def _whole(request: Request) -> Mapping[str, Any]:
    """The request that is to be counted: contents alone, or a whole one that names its model."""
    wrapped: Mapping[str, Any] | None = request.body.get("generateContentRequest")
    for name in sorted(request.body.keys() - {"contents", "generateContentRequest"}):
        raise error(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    if wrapped is not None and wrapped.get("model") != f"models/{request.arguments['model']}":
        raise error("* CountTokensRequest.generate_content_request.model: unexpected model name format\n")
    return request.body if wrapped is None else wrapped


def _checked(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    contents: Sequence[Mapping[str, Any]] = body.get("contents") or ()
    if not contents:
        raise error("* GenerateContentRequest.contents: contents is not specified\n")
    for number, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model", "function"):
            raise error("Please use a valid role: user, model.")
        if not content.get("parts"):
            raise error(f"* GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty.\n")
        if any(not part.keys() - {"thought", "thoughtSignature", "partMetadata"} for part in content["parts"]):
            raise error(
                f"* GenerateContentRequest.contents[{number}].parts: contents.parts.data: required oneof field 'data' "
                "must have one initialized field\n"
            )
    _check_turns(contents)
    return contents


def _check_turns(contents: Sequence[Mapping[str, Any]]) -> None:
    for number, content in enumerate(contents):
        before = contents[number - 1] if number else {"parts": []}
        asked = len(_having(before, "functionCall"))
        given = len(_having(content, "functionResponse"))
        if given and not asked:
            raise error("Please ensure that function response turn comes immediately after a function call turn.")
        if given != asked:
            raise error(
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if _having(content, "functionCall") and (not number or before.get("role") == "model"):
            raise error(
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )


def _check_signatures(contents: Sequence[Mapping[str, Any]]) -> None:
    """Since the last real text of a user, the first call of every step carries its signature."""
    position = sum(len(_having(content, "functionCall")) for content in contents)
    for content in reversed(contents):
        calls = _having(content, "functionCall")
        position -= len(calls)
        if content.get("role", "user") == "user" and not _having(content, "functionResponse"):
            return
        if calls and not calls[0].get("thoughtSignature"):
            raise error(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{calls[0]['functionCall']['name']}` , position {position + 1}."
            )


def _having(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [part for part in content["parts"] if name in part]


def _texts(content: Mapping[str, Any]) -> Iterator[str]:
    for part in content["parts"]:
        if "text" in part:
            yield part["text"]
        elif "functionResponse" in part:
            yield _result_text(part["functionResponse"].get("response") or {})


def _result_text(response: Mapping[str, Any]) -> str:
    """A response of one string field counts as that text, everything else as its compact JSON."""
    values = list(response.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else dumps(response).decode()


def _unit(content: Mapping[str, Any], media_tokens: int) -> Unit:
    texts = list(_texts(content))
    overhead = ENVELOPE.message + ENVELOPE.result * len(_having(content, "functionResponse"))
    for part in _having(content, "functionCall"):
        call = part["functionCall"]
        texts += [call["name"], dumps(call.get("args") or {}).decode()]
        overhead += ENVELOPE.call
    overhead += media_tokens * (len(_having(content, "inlineData")) + len(_having(content, "fileData")))
    return unit(content, texts, overhead)


def _parts(reply: Reply) -> list[dict[str, Any]]:
    answer = reply.answer
    parts: list[dict[str, Any]] = []
    if answer.reasoning:
        parts.append({"text": answer.reasoning, "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    for position, call in enumerate(answer.calls):
        given = loads(call.arguments.encode() or b"{}")
        given = given if isinstance(given, dict) else {"value": given}
        part: dict[str, Any] = {"functionCall": {"id": call.call_id, "name": call.name, "args": given}}
        if not position and reply.rules.signatures_back:
            part["thoughtSignature"] = reply.seal
        parts.append(part)
    return parts or [{"text": ""}]


def _streamed(reply: Reply) -> Iterator[dict[str, Any]]:
    for part in _parts(reply):
        if part.get("text"):
            yield from ({**part, "text": piece} for piece in pieces(part["text"], reply.piece))
        else:
            yield part


def _chunk(reply: Reply, parts: Sequence[Mapping[str, Any]], *, written: float, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if last:
        candidate["finishReason"] = "MAX_TOKENS" if reply.answer.finish else "STOP"
    bill = reply.bill
    said = int((bill.output - bill.reasoning) * written)
    usage: dict[str, Any] = {
        "promptTokenCount": bill.input,
        "candidatesTokenCount": said,
        "totalTokenCount": bill.input + said + bill.reasoning,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": bill.input}],
    }
    if bill.reasoning:
        usage["thoughtsTokenCount"] = bill.reasoning
    if bill.read:
        usage["cachedContentTokenCount"] = bill.read
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": bill.read}]
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.asked.model,
        "responseId": f"demo{reply.number:06d}",
    }
