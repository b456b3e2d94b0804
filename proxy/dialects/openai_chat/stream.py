"""Chat completions: reading answers, streamed or whole."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from proxy.conversation.fingerprint import ReplyPrint
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
from proxy.dialects.openai_chat.reasoning import PLACES, KeptReasoning
from proxy.dialects.openai_chat.usage import usage_of
from proxy.dialects.openai_chat.view import REASONING_FIELDS
from proxy.ledger.records import Reply
from proxy.tokens.usage import NOT_REPORTED
from proxy.wire.sse import EventSplitter

_OF_ANSWERS = ("choices", "usage")
# Finish reasons beside OpenAI's (API references of Z.ai, DeepSeek and watsonx, 2026-09; SGLang). Google's own names pass its
# compatible endpoint as they are.
_BLOCKED = frozenset(
    {"content_filter", "sensitive", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"}
)
_FAILED = frozenset({"error", "network_error"})
_BROKEN_OFF = frozenset({"abort", "insufficient_system_resource", "cancelled", "time_limit"})


class _Choice:
    """One choice as it grows."""

    def __init__(self, *, keep_reasoning: bool) -> None:
        self.print = ReplyPrint()
        self.finish = ""
        self.calls = 0
        self._keeps_reasoning = keep_reasoning
        self._kept: KeptReasoning | None = None
        """None while there was nothing to keep."""
        self._last_ids: dict[int, str] = {}

    def take(self, delta: Mapping[str, Any]) -> str:
        """A delta or a whole message; returns its visible text."""
        if self._keeps_reasoning and not PLACES.isdisjoint(delta):
            self._kept = self._kept or KeptReasoning()
            self._kept.take(delta)
        said = _said(delta.get("content"))
        if isinstance(delta.get("refusal"), str):
            said += delta["refusal"]
        if said:
            self.print.text(said)
        # Most deltas have neither.
        if calls := delta.get("tool_calls"):
            for call in objects(calls):
                self._call(call)
        if (old := delta.get("function_call")) and (name := mapping(old).get("name")):
            self.calls += 1
            self.print.call(name_of(name))
        return said

    def reply(self, visible_chars: int, choices: int) -> Reply:
        """What is kept of it, as one of so many that share so many visible characters."""
        return Reply(
            fingerprint=self.print.digest(),
            share=self.print.visible_chars / visible_chars if visible_chars else 1 / choices,
            calls=self.calls,
            reasoning=self._kept.packed() if self._kept is not None else "",
        )

    def _call(self, call: dict[str, Any]) -> None:
        """A piece of a call: a new id starts a new call, even where a provider repeats the index."""
        body = mapping(call.get("function")) or mapping(call.get("custom"))
        self.print.visible_chars += len(str(body.get("arguments") or body.get("input") or ""))
        index = call.get("index")
        index = index if isinstance(index, int) else self.calls
        identity = str(call.get("id") or "")
        if index in self._last_ids and identity in ("", self._last_ids[index]):
            return
        self._last_ids[index] = identity
        self.calls += 1
        self.print.call(name_of(body.get("name")))


class _Answer:
    """What all chunks, or the one completion, have said so far."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool, place: str) -> None:
        self._place = place
        self._keep_reasoning = keep_reasoning
        self.usage = NOT_REPORTED
        self.error: dict[str, Any] | None = None
        self.done = False
        self.has_content = False
        self._choices: dict[int, _Choice] = {}
        self._text: list[tuple[int, str]] | None = [] if keep_text else None

    def take(self, answer: Any, name: str = "") -> None:
        """A `chat.completion` or `chat.completion.chunk` object, or an error in its place.

        `name`: of the event; some servers say there alone that it is an error.
        """
        if not isinstance(answer, dict):
            if name == "error":
                self.error = {"message": ""}
            return
        choices = answer.get("choices")
        reported = usage_of(answer)
        if reported is not NOT_REPORTED:
            self.usage = self.usage.merged(reported)
            # Some report with every chunk; a chunk of usage alone is the last one.
            self.done = self.done or not choices
        if answer.get("error"):
            self.error = error_of(answer["error"])
        elif "error" in (answer.get("object"), answer.get("type"), name):
            self.error = answer
        elif not choices and (said := mapping(answer.get("base_resp"))).get("status_code"):
            # MiniMax, behind a 200.
            self.error = {"message": str(said.get("status_msg") or ""), "code": said["status_code"]}
        for choice in objects(choices):
            self._take_choice(choice)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        known = self._choices.get(index)
        if known is None:
            known = self._choices[index] = _Choice(keep_reasoning=self._keep_reasoning)
        # Perplexity fills in both: an empty delta in whole answers, the text so far as message in streams.
        delta = mapping(choice.get(self._place)) or mapping(choice.get("delta")) or mapping(choice.get("message"))
        said = known.take(delta)
        if not self.has_content:
            self.has_content = bool(said) or known.calls > 0 or any(delta.get(name) for name in REASONING_FIELDS)
        if self._text is not None:
            # A refusal is visible, and no text to go on with.
            self._text.append((index, _said(delta.get("content"))))
        if choice.get("finish_reason"):
            known.finish = str(choice["finish_reason"])
            if known.finish in _FAILED:
                self.error = self.error or {"type": known.finish}

    def observation(self, *, complete: bool) -> Observation:
        """The sum of it. Complete means: the transport ended cleanly."""
        choices = list(map(self._choices.__getitem__, sorted(self._choices)))
        visible = calls = 0
        finishes = set()
        for choice in choices:
            visible += choice.print.visible_chars
            calls += choice.calls
            finishes.add(choice.finish)
        # An end of nothing is none.
        answered = bool(choices) or self.usage is not NOT_REPORTED
        ended = _BROKEN_OFF.isdisjoint(finishes) and ((self.done and answered) or (bool(finishes) and all(finishes)))
        outcome = "ok" if complete and ended else "truncated"
        if not _BLOCKED.isdisjoint(finishes):
            outcome = "blocked"
        told = Observation(
            usage=self.usage,
            outcome=outcome,
            replies=tuple([choice.reply(visible, len(choices)) for choice in choices]),
            tool_calls=calls,
            has_content=self.has_content,
            text=_first_text(self._text) if self._text else "",
            finish=choices[0].finish if choices else "",
        )
        return told if self.error is None else _with_error(told, self.error)


class ChatStream:
    """Reads `text/event-stream`."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._events = EventSplitter()
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning, place="delta")

    def feed(self, chunk: bytes) -> None:
        """Take bytes, cut anywhere."""
        for event in self._events.feed(chunk):
            self._take(event.data, event.name)

    def _take(self, data: bytes, name: str) -> None:
        if data.strip() == b"[DONE]":
            self._answer.done = True
        elif data:
            self._answer.take(parsed(data), name)

    def finish(self, *, complete: bool) -> Observation:
        """What the stream came to."""
        rest = self._events.rest()
        if rest is not None:
            self._take(rest.said, rest.name)
        return self._answer.observation(complete=complete)


class ChatAnswer:
    """Reads one JSON text."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._body = WholeAnswer()
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning, place="message")

    def feed(self, chunk: bytes) -> None:
        """Take bytes."""
        self._body.feed(chunk)

    def finish(self, *, complete: bool) -> Observation:
        """What the answer came to."""
        answer = self._body.parsed()
        self._answer.done = answer is not None
        self._answer.take(answer)
        if self._answer.error is None and not has_any(answer, _OF_ANSWERS) and tells_error(answer):
            self._answer.error = answer
        return self._answer.observation(complete=complete)


def is_usage_only(event_data: bytes) -> bool:
    """Whether a chunk carries usage and nothing else."""
    if b'"usage"' not in event_data:
        return False
    chunk = parsed(event_data)
    return isinstance(chunk, dict) and bool(chunk.get("usage")) and not chunk.get("choices") and not chunk.get("error")


def _with_error(told: Observation, error: dict[str, Any]) -> Observation:
    code = _code_of(error)
    return msgspec.structs.replace(
        told,
        outcome="error",
        error_type=str(error.get("type") or code or "error"),
        error_code=code,
        error_text=as_text(error),
    )


def _code_of(error: dict[str, Any]) -> Any:
    code = error.get("code")
    return code if isinstance(code, int | str) else error.get("status_code")


def _first_text(pieces: Sequence[tuple[int, str]]) -> str:
    """Of several choices the first one's."""
    first = min(index for index, _ in pieces)
    return "".join(said for index, said in pieces if index == first)


def _said(content: object) -> str:
    if isinstance(content, str):
        return content
    # Mistral's reasoning models answer with chunks of content.
    return "".join(part["text"] for part in objects(content) if isinstance(part.get("text"), str))
