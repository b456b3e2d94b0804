"""The agent's side of the show: sends a session's turns as an agent would and reads what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from proxy.demo.sessions import Session
from proxy.tokens.context import error_percent
from proxy.wire.body import dumps, loads
from proxy.wire.sse import EventSplitter

PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One answer, as the client received it."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names."""
    input_tokens: int = 0
    """As the provider reported; 0 for refusals."""
    cached_tokens: int = 0
    output_tokens: int = 0
    said: Mapping[str, Any] | None = None
    """The assistant message, put together from the stream; None for refusals."""
    error: str = ""
    """The provider's error text, for refusals."""

    @property
    def estimated(self) -> int | None:
        """What the proxy had predicted; None without a proxy."""
        told = self.headers.get("x-context-estimated-input-tokens")
        return int(told) if told else None

    @property
    def anchored(self) -> bool:
        """The prediction stood on an earlier call's actual usage."""
        return self.headers.get("x-context-basis") == "anchored"

    @property
    def removed_tokens(self) -> int:
        """What the proxy took out, by its estimate."""
        return int(self.headers.get("x-context-removed-tokens") or 0)

    @property
    def compacted(self) -> bool:
        """A summary stood in the request."""
        return self.headers.get("x-context-compacted") == "1"

    @property
    def error_percent(self) -> float | None:
        """Signed error of the prediction, of the actual count."""
        return None if self.estimated is None else error_percent(self.estimated, self.input_tokens)


def body_of(session: Session, history: Sequence[Mapping[str, Any]], model: str) -> bytes:
    """The request of one turn."""
    body = {"model": model, "messages": history, "stream": True, "stream_options": {"include_usage": True}}
    if session.tools:
        body["tools"] = session.tools
    return dumps(body)


async def ask(client: httpx.AsyncClient, body: bytes, turn: int) -> Heard:
    """Send one turn (from 0) and read its stream to the end."""
    headers = {"content-type": "application/json", "authorization": "Bearer demo", "x-demo-turn": str(turn)}
    splitter = EventSplitter()
    said: dict[str, Any] = {"role": "assistant", "content": None}
    usage: Mapping[str, Any] = {}
    async with client.stream("POST", PATH, content=body, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            raw = await answer.aread()
            return Heard(status=answer.status_code, headers=dict(answer.headers), error=error_text(raw))
        async for chunk in answer.aiter_bytes():
            for event in splitter.feed(chunk):
                if event.data and event.data != b"[DONE]":
                    usage = _take(loads(event.data), said) or usage
    return Heard(
        status=answer.status_code,
        headers=dict(answer.headers),
        input_tokens=usage.get("prompt_tokens", 0),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        output_tokens=usage.get("completion_tokens", 0),
        said=said,
    )


def _take(chunk: Mapping[str, Any], said: dict[str, Any]) -> Mapping[str, Any]:
    """Add a chunk to the message; gives its usage, empty when it has none."""
    for choice in chunk["choices"]:
        delta = choice["delta"]
        if delta.get("content"):
            said["content"] = (said["content"] or "") + delta["content"]
        for part in delta.get("tool_calls") or ():
            calls = said.setdefault("tool_calls", [])
            if part["index"] == len(calls):
                calls.append({"id": part["id"], "type": "function", "function": dict(part["function"])})
            else:
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    return chunk.get("usage") or {}


def error_text(raw: bytes) -> str:
    """The message of an error answer, in whichever of the vendors' shapes."""
    try:
        return str(loads(raw)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "an answer that is not an error of this API"
