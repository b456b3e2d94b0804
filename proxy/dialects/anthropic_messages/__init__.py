"""Anthropic Messages, at Anthropic and at all who speak it (facts: Anthropic API reference, "Messages", 2026-11)."""

from collections.abc import Collection, Mapping

from proxy.conversation.model import Part
from proxy.conversation.recall import Recall
from proxy.dialects.anthropic_messages import marks, reasoning, rewrite, summary
from proxy.dialects.anthropic_messages.stream import MessagesAnswer, MessagesStream
from proxy.dialects.anthropic_messages.view import NAME, view_body
from proxy.dialects.base import DropOption, Reader, Refusal, Splice, View
from proxy.dialects.refusals import refusal_of
from proxy.wire.body import dumps

_COUNTS = ("/count_tokens", "/count-tokens:rawPredict")
"""How the path of a counting request ends: at Anthropic, at Vertex."""


class AnthropicMessages:
    """`POST …/v1/messages` and `POST …/v1/messages/count_tokens`."""

    name = NAME
    history_field = "messages"
    allows_comments = True
    reasoning_alone = False

    def view(self, path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
        """Read a request; a count has no `max_tokens` and does not stream."""
        return view_body(path, headers, body, recall)

    def is_count(self, path: str) -> bool:
        """Whether the request asks for `{"input_tokens": n}` alone."""
        return path.endswith(_COUNTS)

    def replace_results(self, message: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
        """Put new text into `tool_result` blocks; a user message may hold several."""
        return rewrite.replace_results(message, texts, keeping)

    def strip_reasoning(self, message: bytes) -> bytes:
        """Take `thinking` and `redacted_thinking` blocks out."""
        return rewrite.strip_reasoning(message)

    def restore_reasoning(self, message: bytes, payload: str) -> bytes:
        """Put thinking blocks in at their old places."""
        return reasoning.restore(message, payload)

    def is_named(self, view: View, run: range) -> bool:
        """Never: messages have no ids."""
        return False

    def restored_parts(self, payload: str) -> tuple[Part, ...]:
        """The reasoning in the payload."""
        return reasoning.restored_parts(payload)

    def drop_option(self, view: View) -> DropOption | None:
        """`thinking.block_binding.prefix_mismatch_behavior`, where the request has a `thinking` to put it into."""
        return rewrite.drop_option(view)

    def user_message(self, text: str) -> bytes:
        """`{"role":"user","content":text}`."""
        return dumps({"role": "user", "content": text})

    def summary_target(self, path: str, model: str) -> str:
        """The same path: the model stands in the body."""
        return path

    def summary_body(self, *, model: str, system: str, text: str, max_tokens: int) -> bytes:
        """System text and one user message."""
        return summary.fresh(model, system, text, max_tokens)

    def for_summary(self, body: bytes, max_tokens: int) -> bytes:
        """The same history, answered in plain text."""
        return summary.continued(body, max_tokens)

    def ask_usage(self, view: View) -> tuple[Splice, ...]:
        """Nothing to ask: usage is always reported."""
        return ()

    def moved_mark(self, body: bytes, lost: bytes) -> bytes:
        """A breakpoint on the newest of the user's messages that are left."""
        return marks.moved_mark(body, lost)

    def mark_cache(self, body: bytes) -> bytes:
        """`cache_control` on the tools, the system text and the last two messages of the user."""
        return marks.mark_cache(body)

    def reader(self, *, stream: bool, keep_text: bool = False, keep_reasoning: bool = False) -> Reader:
        """Reads events, or a `message`, or a count."""
        kind = MessagesStream if stream else MessagesAnswer
        return kind(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def is_usage_only(self, event_data: bytes) -> bool:
        """Never: no event exists because of us."""
        return False

    def refusal(self, status: int, body: bytes) -> Refusal | None:
        """Overflow, or thinking that is missing or altered."""
        return refusal_of(status, body)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """`{"type":"error","error":{...}}`, with a type that Anthropic's SDKs know."""
        known = {500: "api_error", 502: "api_error", 504: "timeout_error"}.get(status, kind)
        return dumps({"type": "error", "error": {"type": known, "message": message}})
