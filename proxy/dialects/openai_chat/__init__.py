"""OpenAI chat completions and the many providers that speak it (facts: OpenAI API reference, "Chat", 2026-11)."""

from collections.abc import Collection, Mapping

from proxy.conversation.model import Part
from proxy.conversation.recall import Recall
from proxy.dialects.base import DropOption, Reader, Refusal, Splice, View
from proxy.dialects.openai_chat import reasoning, rewrite, summary
from proxy.dialects.openai_chat.stream import ChatAnswer, ChatStream, is_usage_only
from proxy.dialects.openai_chat.view import NAME, view_body
from proxy.dialects.refusals import refusal_of
from proxy.wire.body import dumps


class OpenAIChat:
    """`POST …/chat/completions`."""

    name = NAME
    history_field = "messages"
    allows_comments = True
    reasoning_alone = False

    def view(self, path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
        """Read a request."""
        return view_body(headers, body, recall, path)

    def is_count(self, path: str) -> bool:
        """Never: there is no counting endpoint."""
        return False

    def replace_results(self, message: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
        """Put new text into a tool message; it has exactly one result, part 0."""
        return rewrite.replace_result(message, texts[0], keeps_media=bool(keeping))

    def strip_reasoning(self, message: bytes) -> bytes:
        """Take `reasoning_content`, `reasoning`, `reasoning_details` and thinking chunks out."""
        return rewrite.strip_reasoning(message)

    def restore_reasoning(self, message: bytes, payload: str) -> bytes:
        """Put reasoning fields and `extra_content` in that are missing."""
        return reasoning.restore(message, payload)

    def is_named(self, view: View, run: range) -> bool:
        """Never: messages have no ids."""
        return False

    def restored_parts(self, payload: str) -> tuple[Part, ...]:
        """The reasoning in the payload."""
        return reasoning.restored_parts(payload)

    def drop_option(self, view: View) -> DropOption | None:
        """None: nothing is bound to its prefix here."""
        return None

    def user_message(self, text: str) -> bytes:
        """`{"role":"user","content":text}`."""
        return dumps({"role": "user", "content": text})

    def summary_target(self, path: str, model: str) -> str:
        """The same path: the model stands in the body."""
        return path

    def summary_body(self, *, model: str, system: str, text: str, max_tokens: int) -> bytes:
        """A system and a user message."""
        return summary.fresh(model, system, text, max_tokens)

    def for_summary(self, body: bytes, max_tokens: int) -> bytes:
        """The same history, answered in plain text."""
        return summary.continued(body, max_tokens)

    def ask_usage(self, view: View) -> tuple[Splice, ...]:
        """Set `stream_options.include_usage`; only legal with `stream: true`."""
        return rewrite.ask_usage(view)

    def moved_mark(self, body: bytes, lost: bytes) -> bytes:
        """The body as it is: the cache needs no marks."""
        return body

    def mark_cache(self, body: bytes) -> bytes:
        """Unchanged: the cache is automatic."""
        return body

    def reader(self, *, stream: bool, keep_text: bool = False, keep_reasoning: bool = False) -> Reader:
        """Reads `chat.completion` and `chat.completion.chunk` objects."""
        kind = ChatStream if stream else ChatAnswer
        return kind(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def is_usage_only(self, event_data: bytes) -> bool:
        """A chunk with usage and no choices."""
        return is_usage_only(event_data)

    def refusal(self, status: int, body: bytes) -> Refusal | None:
        """Overflow, an unknown `stream_options`, or reasoning that is missing or altered."""
        return refusal_of(status, body)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """`{"error": {...}}` as OpenAI's SDKs read it."""
        return dumps({"error": {"message": message, "type": kind, "param": None, "code": kind}})
