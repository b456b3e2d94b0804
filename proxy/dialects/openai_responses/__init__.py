"""OpenAI Responses and those who speak it: Azure, xAI, DeepSeek, Bedrock, LM Studio (API reference, 2026-11)."""

from collections.abc import Collection, Mapping

from proxy.conversation.model import Part
from proxy.conversation.recall import Recall
from proxy.dialects.base import DropOption, Reader, Refusal, Splice, View
from proxy.dialects.fields import mapping
from proxy.dialects.openai_responses import reasoning, summary
from proxy.dialects.openai_responses.rewrite import replace_output
from proxy.dialects.openai_responses.stream import ResponsesAnswer, ResponsesStream
from proxy.dialects.openai_responses.view import NAME, view_body
from proxy.dialects.refusals import refusal_of
from proxy.wire.body import dumps, loads, object_spans


class OpenAIResponses:
    """`POST …/responses` and `POST …/responses/input_tokens`."""

    name = NAME
    history_field = "input"
    allows_comments = True
    reasoning_alone = True

    def is_count(self, path: str) -> bool:
        """`…/responses/input_tokens` takes the same body and answers `{"input_tokens": n}`."""
        return path.endswith("/responses/input_tokens")

    def view(self, path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
        """Read a request."""
        return view_body(headers, body, recall)

    def replace_results(self, message: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
        """Put new text into an output item; it has exactly one result, part 0."""
        return replace_output(message, texts[0], keeps_media=bool(keeping))

    def strip_reasoning(self, message: bytes) -> bytes:
        """Nothing of a reasoning item: it is an element of its own, and goes as one."""
        return b"" if mapping(loads(message)).get("type") == "reasoning" else message

    def restore_reasoning(self, message: bytes, payload: str) -> bytes:
        """Put encrypted reasoning items in front of the item."""
        return reasoning.restore(message, payload)

    def is_named(self, view: View, run: range) -> bool:
        """By an item's `id`: one of these is refused without the reasoning that led to it."""
        return any("id" in object_spans(view.body, *view.spans[number]) for number in run)

    def restored_parts(self, payload: str) -> tuple[Part, ...]:
        """The reasoning in the payload."""
        return reasoning.restored_parts(payload)

    def drop_option(self, view: View) -> DropOption | None:
        """None: what no longer fits is dropped without being asked."""
        return None

    def user_message(self, text: str) -> bytes:
        """A message item with one `input_text`, the form that every server takes."""
        content = [{"type": "input_text", "text": text}]
        return dumps({"type": "message", "role": "user", "content": content})

    def summary_target(self, path: str, model: str) -> str:
        """The same path: the model stands in the body."""
        return path

    def summary_body(self, *, model: str, system: str, text: str, max_tokens: int) -> bytes:
        """Instructions and one input text."""
        return summary.fresh(model, system, text, max_tokens)

    def for_summary(self, body: bytes, max_tokens: int) -> bytes:
        """The same history, answered in plain text."""
        return summary.continued(body, max_tokens)

    def ask_usage(self, view: View) -> tuple[Splice, ...]:
        """Nothing: usage always comes, and `stream_options.include_usage` is refused here."""
        return ()

    def moved_mark(self, body: bytes, lost: bytes) -> bytes:
        """The body as it is: the cache needs no marks."""
        return body

    def mark_cache(self, body: bytes) -> bytes:
        """Unchanged: the cache is automatic."""
        return body

    def reader(self, *, stream: bool, keep_text: bool = False, keep_reasoning: bool = False) -> Reader:
        """Reads response objects and `response.*` events."""
        kind = ResponsesStream if stream else ResponsesAnswer
        return kind(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def is_usage_only(self, event_data: bytes) -> bool:
        """Never: we ask for nothing."""
        return False

    def refusal(self, status: int, body: bytes) -> Refusal | None:
        """Overflow, or reasoning that is missing or altered."""
        return refusal_of(status, body)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """`{"error": {...}}` as OpenAI's SDKs read it."""
        return dumps({"error": {"message": message, "type": kind, "param": None, "code": kind}})
