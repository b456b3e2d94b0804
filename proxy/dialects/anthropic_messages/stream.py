"""Anthropic Messages: reading answers, streamed or whole."""

from collections.abc import Mapping
from typing import Any

from proxy.conversation.fingerprint import ReplyPrint
from proxy.dialects.anthropic_messages.reasoning import KeptReasoning
from proxy.dialects.anthropic_messages.usage import begun, compacted, context_of, merged, normal_form
from proxy.dialects.anthropic_messages.view import SERVER_CALLS
from proxy.dialects.base import Observation
from proxy.dialects.fields import (
    WholeAnswer,
    as_text,
    error_of,
    has_any,
    mapping,
    name_of,
    objects,
    parsed,
    tells_error,
)
from proxy.ledger.records import Reply
from proxy.wire.sse import EventSplitter

_OF_ANSWERS = ("content", "usage", "input_tokens")


class _Answer:
    """What the events, or the one message, have said so far."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool) -> None:
        self.done = False
        self._usage: Mapping[str, Any] = {}
        self._error: Mapping[str, Any] | None = None
        self._print = ReplyPrint()
        self._calls = 0
        self._finish = ""
        self._has_content = False
        self._server_edited = False
        self._dropped = 0
        self._text: list[str] | None = [] if keep_text else None
        self._kept = KeptReasoning() if keep_reasoning else None

    def take(self, piece: Any, name: str = "") -> None:
        """An event's data, a whole `message`, a count (`{"input_tokens": n}`) or an error in place of them.

        `name`: of the event; some servers give its type only there.
        """
        event = mapping(piece)
        match event.get("type") or name:
            case "content_block_delta":
                self._delta(event.get("index"), mapping(event.get("delta")))
            case "content_block_start":
                self._block(event.get("index"), mapping(event.get("content_block")))
            case "message_start":
                self._message(begun(mapping(event.get("message"))))
            case "message_delta":
                self._facts(event, event.get("usage"))
                self._finish = str(mapping(event.get("delta")).get("stop_reason") or self._finish)
            case "message_stop":
                self.done = True
            case "ping" | "content_block_stop":
                pass
            case "error":
                # Some gateways leave out the inner object.
                self._fail(event.get("error") or event)
            case _ if event.get("error"):
                self._fail(event["error"])
            case "message":
                self._message(event)
            case _ if "input_tokens" in event:
                self._facts(event, event)

    def _message(self, message: Mapping[str, Any]) -> None:
        for index, block in enumerate(objects(message.get("content"))):
            self._block(index, block)
        self._facts(message, message.get("usage"))
        self._finish = str(message.get("stop_reason") or self._finish)

    def _block(self, index: object, block: Mapping[str, Any]) -> None:
        """A block as it begins, or whole."""
        if self._kept is not None:
            self._kept.block(index, block)
        kind = block.get("type")
        if kind == "text":
            self._say(block.get("text"))
            return
        self._has_content = True
        if kind == "tool_use" or kind in SERVER_CALLS:
            self._print.call(name_of(block.get("name")))
            self._calls += kind == "tool_use"
        elif kind == "compaction":
            self._server_edited = True

    def _delta(self, index: object, delta: Mapping[str, Any]) -> None:
        if self._kept is not None:
            self._kept.delta(index, delta)
        if delta.get("type") == "text_delta":
            self._say(delta.get("text"))

    def _say(self, text: object) -> None:
        if isinstance(text, str) and text:
            self._has_content = True
            self._print.text(text)
            if self._text is not None:
                self._text.append(text)

    def _facts(self, event: Mapping[str, Any], usage: object) -> None:
        """What a message says about itself, at its start or at its end."""
        self._usage = merged(self._usage, usage)
        applied = mapping(event.get("context_management")).get("applied_edits")
        self._server_edited = self._server_edited or bool(applied) or compacted(self._usage)
        if "input_transformations" in event:
            # The list is repeated, not continued.
            changes = objects(event["input_transformations"])
            self._dropped = sum(change.get("type") == "thinking_dropped" for change in changes)

    def _reply(self) -> Reply:
        kept = self._kept.packed() if self._kept is not None else ""
        return Reply(fingerprint=self._print.digest(), calls=self._calls, reasoning=kept)

    def _fail(self, error: object) -> None:
        self._error = error_of(error)

    def observation(self, *, complete: bool) -> Observation:
        """The sum of it. Complete means: the transport ended cleanly."""
        usage, context = normal_form(self._usage), context_of(self._usage)
        outcome = "ok" if complete and self.done else "truncated"
        error = self._error or {}
        code = error.get("code")
        if self._error is not None:
            outcome = "error"
        elif self._finish == "refusal":
            outcome = "blocked"
        answered = self._has_content or bool(self._finish)
        return Observation(
            usage=usage,
            context=context if context != usage else None,
            outcome=outcome,
            error_type=str(error.get("type") or code or "error") if self._error is not None else "",
            error_code=code if isinstance(code, int | str) else None,
            error_text=as_text(error),
            replies=(self._reply(),) if answered else (),
            tool_calls=self._calls,
            server_edited=self._server_edited,
            dropped_reasoning=self._dropped,
            has_content=self._has_content,
            text="".join(self._text or ()),
            finish=self._finish,
        )


class MessagesStream:
    """Reads `text/event-stream`; mostly each event's type stands in its data, too."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._events = EventSplitter()
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def feed(self, chunk: bytes) -> None:
        """Take bytes, cut anywhere."""
        for event in self._events.feed(chunk):
            if event.data:
                self._answer.take(parsed(event.data), event.name)

    def finish(self, *, complete: bool) -> Observation:
        """What the stream came to."""
        rest = self._events.rest()
        if rest is not None:
            self._answer.take(parsed(rest.said), rest.name)
        return self._answer.observation(complete=complete)


class MessagesAnswer:
    """Reads one JSON text."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._body = WholeAnswer()
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def feed(self, chunk: bytes) -> None:
        """Take bytes."""
        self._body.feed(chunk)

    def finish(self, *, complete: bool) -> Observation:
        """What the answer came to."""
        answer = self._body.parsed()
        self._answer.done = has_any(answer, _OF_ANSWERS)
        self._answer.take(answer, "error" if not self._answer.done and tells_error(answer) else "")
        return self._answer.observation(complete=complete)
