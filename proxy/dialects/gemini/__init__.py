"""Google Gemini on the Gemini API, Vertex AI and Code Assist (API reference, "generateContent", 2026-10)."""

from collections.abc import Collection, Mapping

from proxy.conversation.model import Part
from proxy.conversation.recall import Recall
from proxy.dialects.base import DropOption, Reader, Refusal, Splice, View
from proxy.dialects.gemini import reasoning, summary
from proxy.dialects.gemini.rewrite import replace_responses, strip_thoughts
from proxy.dialects.gemini.stream import GeminiReader
from proxy.dialects.gemini.view import NAME, view_body
from proxy.dialects.refusals import refusal_of
from proxy.wire.body import dumps

# google.rpc.Code by HTTP status (google/rpc/code.proto); its SDKs read `status`.
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    426: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini:
    """`POST …/models/MODEL:generateContent`, `:streamGenerateContent` and `:countTokens`."""

    name = NAME
    history_field = "contents"
    allows_comments = False
    reasoning_alone = False

    def is_count(self, path: str) -> bool:
        """`:countTokens` takes the same contents and answers `{"totalTokens": n}`."""
        return path.endswith(":countTokens")

    def view(self, path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
        """Read a request."""
        return view_body(path, headers, body, recall)

    def replace_results(self, message: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
        """Put new text into the responses of a content; an object stays an object."""
        return replace_responses(message, texts, keeping)

    def strip_reasoning(self, message: bytes) -> bytes:
        """Take the `thought` parts out; signatures on other parts stay."""
        return strip_thoughts(message)

    def restore_reasoning(self, message: bytes, payload: str) -> bytes:
        """Put `thoughtSignature` on calls that lack it."""
        return reasoning.restore(message, payload)

    def is_named(self, view: View, run: range) -> bool:
        """Never: contents have no ids."""
        return False

    def restored_parts(self, payload: str) -> tuple[Part, ...]:
        """Nothing that has a length: signatures only."""
        return ()

    def drop_option(self, view: View) -> DropOption | None:
        """None: signatures are not bound to their prefix."""
        return None

    def user_message(self, text: str) -> bytes:
        """`{"role":"user","parts":[{"text":text}]}`."""
        return dumps({"role": "user", "parts": [{"text": text}]})

    def summary_target(self, path: str, model: str) -> str:
        """The model stands in the path, and so does the kind of answer."""
        return summary.target(path, model)

    def summary_body(self, *, model: str, system: str, text: str, max_tokens: int) -> bytes:
        """System instruction and one content."""
        return summary.fresh(system, text, max_tokens)

    def for_summary(self, body: bytes, max_tokens: int) -> bytes:
        """The same history, answered in plain text."""
        return summary.continued(body, max_tokens)

    def ask_usage(self, view: View) -> tuple[Splice, ...]:
        """Nothing: every chunk carries usage."""
        return ()

    def moved_mark(self, body: bytes, lost: bytes) -> bytes:
        """The body as it is: the cache needs no marks."""
        return body

    def mark_cache(self, body: bytes) -> bytes:
        """Unchanged: the cache is automatic."""
        return body

    def reader(self, *, stream: bool, keep_text: bool = False, keep_reasoning: bool = False) -> Reader:
        """Reads one object, server-sent events or a JSON array, whichever comes."""
        return GeminiReader(keep_text=keep_text, keep_reasoning=keep_reasoning)

    def is_usage_only(self, event_data: bytes) -> bool:
        """Never: we ask for nothing."""
        return False

    def refusal(self, status: int, body: bytes) -> Refusal | None:
        """Overflow, or a thought signature that is missing or altered."""
        return refusal_of(status, body)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """`{"error": {"code", "message", "status"}}` as Google's SDKs read it."""
        return dumps({"error": {"code": status, "message": message, "status": _STATUSES.get(status, "INTERNAL")}})
