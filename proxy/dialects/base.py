"""What every dialect can do: view a body, rewrite spots in it, read an answer, and speak errors.

A dialect is a lens. It never translates into another dialect, and it never writes a body anew: `view` finds the byte
span of each message, the rewriting functions turn the bytes of *one* message into new bytes, and `splice` (wire.body)
puts them in place. What stands outside those spans leaves the proxy as it came.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from proxy.conversation.lines import Notes
from proxy.conversation.model import Conversation, Part
from proxy.conversation.recall import Recall
from proxy.ledger.records import Reply
from proxy.tokens.usage import NOT_REPORTED, Usage


class View(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request body and where its messages stand in it."""

    body: bytes
    conversation: Conversation
    spans: tuple[tuple[int, int], ...]
    """Start and end in `body` of each element of `conversation.messages`."""
    fields: Mapping[str, tuple[int, int]]
    """Span of the value of each top-level key."""
    asks_usage: bool = True
    """False when the client streams and did not ask for usage, so that the answer will carry none."""
    choices: int = 1
    """How many answers the request wants (`n`)."""
    editable: bool = True
    """False where the history is no JSON array (one string or object for the only message): no plan is applied."""
    head_marked: bool = False
    """The client has set a cache breakpoint behind what stands in front of the history."""
    notes: Notes = msgspec.field(default_factory=Notes)
    """What is known of the messages from the line's last request, see conversation.lines."""


class Splice(msgspec.Struct, frozen=True, kw_only=True):
    """Replace body[start:end] by `text`; an empty span inserts."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOption:
    """How a provider is asked to drop signed reasoning whose prefix has changed, instead of refusing the request."""

    splices: tuple[Splice, ...]
    """Into the client's body."""
    header: tuple[bytes, bytes]
    """To be sent with it; added to a list of the client's under the same name."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer told about itself."""

    usage: Usage = NOT_REPORTED
    context: Usage | None = None
    """What the next context begins with, where that is not `usage`: the last sampling, if one call took several."""
    outcome: str = "ok"
    """ok | error | blocked | truncated"""
    error_type: str = ""
    error_code: int | str | None = None
    error_text: str = ""
    """The provider's whole error as JSON, for recognising refusals: some are known by a code, or wrap another's. Never logged."""
    replies: tuple[Reply, ...] = ()
    tool_calls: int = 0
    response_id: str = ""
    """Id under which the provider keeps this answer, for `previous_response_id`."""
    server_edited: bool = False
    """The provider says that it dropped or compacted something itself."""
    dropped_reasoning: int = 0
    """Reasoning blocks that the provider dropped because the prefix had changed (`input_transformations`)."""
    has_content: bool = False
    """Anything of the model's own has come (text, call, reasoning)."""
    text: str = ""
    """The first choice's visible text; only kept by readers made with `keep_text` (summary calls)."""
    finish: str = ""
    """The provider's finish reason of the first choice, as it said it."""


class Reader(Protocol):
    """Reads a copy of an answer as it passes; can never break it."""

    def feed(self, chunk: bytes) -> None:
        """Take decoded bytes, cut anywhere."""

    def finish(self, *, complete: bool) -> Observation:
        """What came of it. `complete`: the transport ended cleanly."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider's error means to us, whatever its status, where it means something."""

    kind: str
    """overflow | usage_option (it does not know `stream_options`) | cache_option (nor `cache_control`) | reasoning | roles
    (they must alternate)"""
    reasoning: str = ""
    """missing (it must come back) | altered (changed, foreign, or bound to another prefix) | unwanted (not allowed)"""
    window: int | None = None
    """The context window that the text names."""
    counted: int | None = None
    """Input tokens of the refused request, as the provider counted them."""
    over: int | None = None
    """By how many tokens it is too long, where the text says only that."""
    of_bytes: bool = False
    """The body has too many bytes, whatever its tokens."""


class Dialect(Protocol):
    """One wire format."""

    name: str
    """openai_chat | openai_responses | anthropic_messages | gemini"""
    history_field: str
    """Top-level key of the array that holds the history."""
    allows_comments: bool
    """Clients of this format take comment lines in a stream (six Gemini clients break on them)."""
    reasoning_alone: bool
    """Reasoning is an element of the history of its own, so that leaving it out leaves an element out."""

    def view(self, path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
        """Read a request. None: not a body of this format (or broken); it then passes through unread.

        `headers` has lower-case names; only session labels are read from it.
        """

    def is_count(self, path: str) -> bool:
        """Whether a request to this path only counts tokens: it gets the inherited plan, and its answer is no turn."""

    def replace_results(self, message: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
        """The message's bytes with the content of results replaced: part index → new text, same shape as before.

        Keeps every other byte. Part indices are those of the viewed message's parts. Writing twice changes nothing.
        `keeping`: parts whose media stay beside the new text; of all others they go.
        """

    def strip_reasoning(self, message: bytes) -> bytes:
        """The message without its reasoning; the bytes unchanged where the rest would be empty.

        Empty bytes where reasoning is an element of its own: the element goes.
        """

    def restore_reasoning(self, message: bytes, payload: str) -> bytes:
        """The message with the reasoning that its answer had (a payload of dialects.kept); what it has itself stays.

        Several elements, separated by commas, where reasoning is an element of its own.
        """

    def is_named(self, view: View, run: range) -> bool:
        """Whether any of these messages has come back under an id of the provider's own."""

    def restored_parts(self, payload: str) -> tuple[Part, ...]:
        """What `restore_reasoning` adds with this payload, for counting."""

    def drop_option(self, view: View) -> DropOption | None:
        """How to have reasoning dropped whose prefix has changed; None where there is no such option."""

    def user_message(self, text: str) -> bytes:
        """A whole history element with which a user says `text`."""

    def summary_target(self, path: str, model: str) -> str:
        """The path (without query) to which a summary call goes: never a stream. `model` empty: the request's own."""

    def summary_body(self, *, model: str, system: str, text: str, max_tokens: int) -> bytes:
        """A fresh request that asks `model` one thing: no tools, no stream, no format."""

    def for_summary(self, body: bytes, max_tokens: int) -> bytes:
        """A conversation's body turned into a summary call on the same cached prefix.

        Messages, tools and system text keep their bytes; streaming, forced tools, formats and stop words go.
        """

    def ask_usage(self, view: View) -> tuple[Splice, ...]:
        """Splices that make the provider report usage in a stream; empty where there is nothing to ask."""

    def moved_mark(self, body: bytes, lost: bytes) -> bytes:
        """The request of another end, marked for the cache as its old end, `lost`, was by the client."""

    def mark_cache(self, body: bytes) -> bytes:
        """A request's bytes with cache breakpoints, where the format knows them and the client set none itself."""

    def reader(self, *, stream: bool, keep_text: bool = False, keep_reasoning: bool = False) -> Reader:
        """A fresh reader for one answer. `stream`: server-sent events (or a JSON-array stream), else one JSON text.

        `keep_reasoning`: each reply carries its reasoning in the form of dialects.kept, for restoring.
        """

    def is_usage_only(self, event_data: bytes) -> bool:
        """Whether a stream event exists only because we asked for usage, so that it may be hidden from the client."""

    def refusal(self, status: int, body: bytes) -> Refusal | None:
        """What an error answer means to us; None for everything that is the client's business alone."""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """An error of ours in the client's own format, as JSON."""
