"""Gemini: reading answers: one object, an SSE stream (`alt=sse`), or one JSON array sent element by element.

Which of them it is, the first byte tells: errors come as an array or a bare object on any of the three.
"""

from collections.abc import Mapping
from typing import Any

from proxy.conversation.fingerprint import ReplyPrint
from proxy.dialects.base import Observation
from proxy.dialects.fields import as_text, error_of, has_any, mapping, name_of, objects, parsed, tells_error
from proxy.dialects.gemini.contents import parts_of
from proxy.dialects.gemini.reasoning import KeptSignatures
from proxy.dialects.gemini.usage import is_reported, merged, usage_of
from proxy.dialects.unannounced import NOT_YET
from proxy.ledger.records import Reply
from proxy.wire.elements import ElementSplitter
from proxy.wire.sse import EventSplitter

_OF_ANSWERS = ("candidates", "promptFeedback", "usageMetadata", "totalTokens")
# Finish reasons that mean "we do not show you this" (API reference, `FinishReason`, 2026-10).
_BLOCKED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)


class _Candidate:
    """One candidate as it grows."""

    def __init__(self, *, keep_reasoning: bool) -> None:
        self.print = ReplyPrint()
        self.finish = ""
        self.calls = 0
        self.kept = KeptSignatures() if keep_reasoning else None

    def take(self, part: Any) -> tuple[str, bool]:
        """A part; returns its visible text, and whether it is anything at all."""
        if not isinstance(part, dict):
            return "", False
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(text, str):
            said = "" if part.get("thought") is True else text
            self.print.text(said)
            return said, bool(text)
        # Streamed arguments come as calls without a name.
        if isinstance(call, dict) and call.get("name"):
            self.calls += 1
            if self.kept is not None:
                self.kept.call(part)
            self.print.call(name_of(call["name"]))
        return "", True


class _Answer:
    """What all chunks, or the one answer, have said so far."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool) -> None:
        self._keep_reasoning = keep_reasoning
        self._reported: Mapping[str, Any] = {}
        self._error: dict[str, Any] | None = None
        self._blocked = ""
        self._has_content = False
        self._candidates: dict[int, _Candidate] = {}
        self._text: list[str] | None = [] if keep_text else None

    def take(self, answer: Any) -> None:
        """A `GenerateContentResponse`, a count, or an error in its place."""
        if not isinstance(answer, dict):
            return
        # Code Assist wraps each chunk.
        inner = answer["response"] if isinstance(answer.get("response"), dict) else answer
        if is_reported(inner):
            self._reported = merged(self._reported, inner)
        self._blocked = self._blocked or str(mapping(inner.get("promptFeedback")).get("blockReason") or "")
        error = inner.get("error")
        if error:
            self._error = error_of(error)
        elif not has_any(inner, _OF_ANSWERS) and tells_error(inner):
            self._error = inner
        for candidate in objects(inner.get("candidates")):
            self._take_candidate(candidate)

    def _take_candidate(self, candidate: dict[str, Any]) -> None:
        index = candidate.get("index")
        index = index if isinstance(index, int) else 0
        known = self._candidates.setdefault(index, _Candidate(keep_reasoning=self._keep_reasoning))
        for part in parts_of(dict(mapping(candidate.get("content")))):
            said, is_content = known.take(part)
            self._has_content = self._has_content or is_content
            if self._text is not None and index == min(self._candidates):
                self._text.append(said)
        known.finish = str(candidate.get("finishReason") or known.finish)

    def observation(self, *, complete: bool) -> Observation:
        """The sum of it. Complete means: the transport ended cleanly."""
        candidates = [self._candidates[index] for index in sorted(self._candidates)]
        finish = next((candidate.finish for candidate in candidates), self._blocked)
        ended = "totalTokens" in self._reported or any(candidate.finish for candidate in candidates)
        outcome = "ok" if complete and ended else "truncated"
        error = self._error or {}
        code = error.get("code") if isinstance(error.get("code"), int | str) else None
        if self._error is not None:
            outcome = "error"
        elif self._blocked or any(candidate.finish in _BLOCKED for candidate in candidates):
            outcome = "blocked"
        visible = sum(candidate.print.visible_chars for candidate in candidates)
        return Observation(
            usage=usage_of(self._reported),
            outcome=outcome,
            error_type=str(error.get("status") or code or "error") if error else "",
            error_code=code,
            error_text=as_text(error),
            replies=tuple(
                Reply(
                    fingerprint=candidate.print.digest(),
                    share=candidate.print.visible_chars / visible if visible else 1 / len(candidates),
                    calls=candidate.calls,
                    reasoning=candidate.kept.packed() if candidate.kept is not None else "",
                )
                for candidate in candidates
            ),
            tool_calls=sum(candidate.calls for candidate in candidates),
            has_content=self._has_content,
            text="".join(self._text or ()),
            finish=finish,
        )


class GeminiReader:
    """Reads an answer in any of its three framings."""

    def __init__(self, *, keep_text: bool, keep_reasoning: bool = False) -> None:
        self._answer = _Answer(keep_text=keep_text, keep_reasoning=keep_reasoning)
        self._elements: ElementSplitter | None = None
        self._events: EventSplitter | None = None

    def feed(self, chunk: bytes) -> None:
        """Take bytes, cut anywhere."""
        if self._elements is None and self._events is None:
            chunk = chunk.lstrip(NOT_YET)
            if not chunk:
                return
            if chunk[:1] in (b"[", b"{"):
                self._elements = ElementSplitter()
            else:
                self._events = EventSplitter()
        if self._elements is not None:
            for element in self._elements.feed(chunk):
                self._answer.take(parsed(element))
        elif self._events is not None:
            for event in self._events.feed(chunk):
                self._answer.take(parsed(event.data))

    def finish(self, *, complete: bool) -> Observation:
        """What the answer came to."""
        rest = self._events.rest() if self._events is not None else None
        if rest is not None:
            self._answer.take(parsed(rest.data))
        return self._answer.observation(complete=complete)
