"""Responses: reading answers, streamed or whole.

The event that ends a stream (`response.completed`, `.incomplete`, `.failed`) holds the whole response; where its
`output` is filled, the reply is read from there, else from the events before it. Item ids are never looked at, since
GitHub Copilot gives an item another id in each event.
"""

from typing import Any

from proxy.conversation.fingerprint import ReplyPrint
from proxy.dialects.base import Observation
from proxy.dialects.fields import WholeAnswer, as_text, has_any, mapping, objects, parsed, tells_error
from proxy.dialects.openai_responses.items import COMPACTIONS, call_name
from proxy.dialects.openai_responses.reasoning import kept_items
from proxy.dialects.openai_responses.usage import usage_of
from proxy.ledger.records import Reply
from proxy.tokens.usage import NOT_REPORTED
from proxy.wire.sse import EventSplitter

_OF_ANSWERS = ("output", "usage", "input_tokens")
_REFUSAL_DELTA = "response.refusal.delta"
_TEXT_DELTAS = frozenset({"response.output_text.delta", _REFUSAL_DELTA})
_ENDS = frozenset(
    {
        "response.completed",
        "response.incomplete",
        "response.failed",
        "response.cancelled",
        # Of the realtime API, and of gateways that lead to the backend of Codex.
        "response.done",
        "response.canceled",
    }
)


class _Reply:
    """What the model has said."""

    def __init__(self, *, keep_text: bool) -> None:
        self.print = ReplyPrint()
        self.calls = 0
        self.compacted = False
        self._text: list[str] | None = [] if keep_text else None

    @property
    def text(self) -> str:
        return "".join(self._text or ())

    def say(self, piece: object, *, refuses: bool) -> None:
        if isinstance(piece, str):
            self.print.text(piece)
            # A refusal is visible, and no text to go on with.
            if self._text is not None and not refuses:
                self._text.append(piece)

    def item(self, item: dict[str, Any]) -> None:
        """A call or a compaction; text comes by `say`."""
        self.compacted = self.compacted or str(item.get("type")) in COMPACTIONS
        name = call_name(item)
        if name is not None:
            self.calls += 1
            self.print.call(name)

    def whole(self, output: list[dict[str, Any]]) -> None:
        """All output items at once."""
        for item in output:
            self.item(item)
            if item.get("type") == "message":
                for part in objects(item.get("content")):
                    refuses = "text" not in part
                    self.say(part.get("refusal") if refuses else part["text"], refuses=refuses)


class _Answer:
    """What all events, or the one response, have said so far."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool) -> None:
        self._keep_text = keep_text
        self._keep_reasoning = keep_reasoning
        self._items: list[dict[str, Any]] = []
        self._reply = _Reply(keep_text=keep_text)
        self.usage = NOT_REPORTED
        self.error: dict[str, Any] | None = None
        self.ended = False
        self.has_content = False
        self.response_id = ""
        self.finish = ""
        self._dropped = 0
        self._edited = False

    def event(self, name: str, event: Any) -> None:
        """One event's data; some servers give its type only in the `event:` line."""
        if not isinstance(event, dict):
            return
        kind = str(event.get("type") or name)
        if kind in _TEXT_DELTAS:
            self.has_content = True
            self._reply.say(event.get("delta"), refuses=kind == _REFUSAL_DELTA)
        elif kind == "response.output_item.done":
            self.has_content = True
            item = dict(mapping(event.get("item")))
            self._reply.item(item)
            if self._keep_reasoning:
                self._items.append(item)
        elif kind == "error" or (event.get("error") and "response" not in event):
            self.fail(event)
        elif isinstance(event.get("response"), dict):
            self.response(event["response"], ends=kind in _ENDS)
        elif kind.endswith(".delta") or kind == "response.output_item.added":
            self.has_content = True

    def response(self, response: dict[str, Any], *, ends: bool) -> None:
        """A response object, or an error in its place."""
        self.usage = self.usage.merged(usage_of(response))
        self.response_id = self.response_id or str(response.get("id") or "")
        self._dropped = max(self._dropped, len(objects(response.get("input_transformations"))))
        self._edited = self._edited or bool(mapping(response.get("context_management")).get("applied_edits"))
        if response.get("error"):
            self.fail(response)
        if not ends:
            return
        self.ended = True
        reason = mapping(response.get("incomplete_details")).get("reason")
        self.finish = str(reason or response.get("status") or "")
        output = objects(response.get("output"))
        if output:
            self.has_content = True
            self._reply = _Reply(keep_text=self._keep_text)
            self._reply.whole(output)
            self._items = output

    def fail(self, holder: dict[str, Any]) -> None:
        """Errors come flat, nested, or as a bare text beside a code (xAI)."""
        error = holder.get("error")
        found = error if isinstance(error, dict) else {**holder, "message": error or holder.get("message")}
        # `response.failed` repeats the error without its type.
        self.error = {**(self.error or {}), **{key: value for key, value in found.items() if value is not None}}

    def observation(self, *, complete: bool) -> Observation:
        """The sum of it. Complete means: the transport ended cleanly."""
        error = self.error or {}
        code = error.get("code") if isinstance(error.get("code"), int | str) else None
        kind = str(error.get("type") or "")
        outcome = "ok" if complete and self.ended else "truncated"
        if self.error is not None or self.finish == "failed":
            outcome = "error"
        elif self.finish == "content_filter":
            outcome = "blocked"
        reply = self._reply
        kept = kept_items(self._items) if self._keep_reasoning else ""
        said = Reply(fingerprint=reply.print.digest(), calls=reply.calls, reasoning=kept)
        return Observation(
            usage=self.usage,
            outcome=outcome,
            error_type=(kind if kind not in ("", "error") else str(code or "error")) if outcome == "error" else "",
            error_code=code,
            error_text=as_text(error),
            replies=(said,) if self.has_content else (),
            tool_calls=reply.calls,
            response_id=self.response_id,
            server_edited=self._edited or reply.compacted,
            dropped_reasoning=self._dropped,
            has_content=self.has_content,
            text=reply.text,
            finish=self.finish,
        )


class ResponsesStream:
    """Reads `text/event-stream`."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._events = EventSplitter()
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def feed(self, chunk: bytes) -> None:
        """Take bytes, cut anywhere."""
        for event in self._events.feed(chunk):
            self._take(event.name, event.data)

    def _take(self, name: str, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            # An end of nothing is none.
            self._answer.ended = self._answer.ended or self._answer.has_content
        elif data:
            self._answer.event(name, parsed(data))

    def finish(self, *, complete: bool) -> Observation:
        """What the stream came to."""
        rest = self._events.rest()
        if rest is not None:
            self._take(rest.name, rest.said)
        return self._answer.observation(complete=complete)


class ResponsesAnswer:
    """Reads one JSON text: a response, a count, or an error."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._body = WholeAnswer()
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def feed(self, chunk: bytes) -> None:
        """Take bytes."""
        self._body.feed(chunk)

    def finish(self, *, complete: bool) -> Observation:
        """What the answer came to."""
        response = self._body.parsed()
        if isinstance(response, dict):
            known = has_any(response, _OF_ANSWERS)
            self._answer.response(response, ends=known)
            if not known and tells_error(response):
                self._answer.fail(response)
        return self._answer.observation(complete=complete)
