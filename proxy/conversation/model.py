"""What a conversation is, whatever provider speaks it.

A `Message` is one element of the request's history as the client sent it: an element of `messages` (chat, Anthropic),
of `input` (Responses) or of `contents` (Gemini). What a dialect does not understand is carried as `Opaque`, unread.
Values are immutable, so a message that was parsed once is shared by every later turn that resends the same bytes.
Tens of thousands stay in memory and none can be part of a cycle, so the collector need not look at them (`gc=False`).
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]


class Text(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Visible text."""

    text: str


class Media(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An image, sound, film or document; its bytes are never kept, its cost never follows from their number."""

    kind: Literal["image", "audio", "video", "file"]
    width: int | None = None
    """Pixels, read from the header of inline bytes; None when unknown (a URL, a format we cannot read)."""
    height: int | None = None
    detail: str = ""
    """The request's own wish: low, high, auto, original; empty when not said."""
    size_bytes: int = 0
    """Decoded size of inline bytes; 0 for references."""
    reference: str = ""
    """A file id or URL, when the content is elsewhere."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The model's wish to run a tool."""

    call_id: str
    name: str
    arguments: str
    """JSON text as it stands in the body."""
    signed: bool = False
    """The provider bound a signature to this call (Gemini)."""
    caller: str = ""
    """Id of the call whose code made this one, empty where the model did. Neither it nor its result stands in the prompt."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a tool gave back. The only kind of part whose content pruning may replace."""

    call_id: str
    name: str = ""
    """The tool's name where the result itself carries it; otherwise its call tells."""
    text: str
    """All text of the result, parts joined with newlines."""
    media: tuple[Media, ...] = ()
    is_error: bool = False
    fixed: bool = False
    """True when the content must not be replaced (encrypted content, a shape that we do not know, what code reads)."""
    to_code: bool = False
    """Answers a call that code made, and goes to that code alone: it stands in no prompt, and its text is not kept here."""


class Reasoning(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The model's own thinking, in whichever field it travels. Opaque: never edited inside, only whole."""

    text: str
    signed: bool = False
    """Signed or encrypted: the provider may bind it to everything before it."""


class Opaque(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part that we carry unread."""

    kind: str
    size_chars: int
    """Length of its JSON text, for a bounded estimate."""


Part = Text | Media | ToolCall | ToolResult | Reasoning | Opaque


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One element of the history, in the order and number in which the client sent it."""

    role: Role
    parts: tuple[Part, ...]
    digest: bytes
    """16 bytes over the *meaning*: key order, string versus one text part, cache marks and nulls do not count."""
    summary_marked: bool = False
    """The element is itself a summary or compaction item made by a client or provider; pruning stops there."""


class Tools(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tool definitions of a request."""

    digest: bytes
    text: str
    """Compact JSON of all definitions, for counting."""
    names: tuple[str, ...]


NO_TOOLS = Tools(digest=b"", text="", names=())


class Conversation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request, as far as the core needs to know it."""

    dialect: str
    model: str
    system: tuple[Message, ...]
    """System text that stands outside the history or leads it; not part of the conversation's identity."""
    tools: Tools
    messages: tuple[Message, ...]
    stream: bool
    max_output: int | None
    """The request's own limit for the answer, in tokens; None when it names none."""
    session_label: str = ""
    """What the client calls this session (a header or a field); a label, never an identity."""
    server_history: str = ""
    """Id under which the provider holds earlier history (`previous_response_id`, `conversation`)."""
    server_moves: bool = False
    """That history grows with every call under the same id (`conversation`), instead of getting a new one."""
    server_edits: bool = False
    """The request asks the provider to edit the history itself (context_management, truncation)."""
    kept_prefix: bool = False
    """Something stands in front that the provider keeps under a name and the request does not show: a stored prompt, a cached
    content."""
    utility: bool = False
    """A client's own title, summary or compaction call: replay only, no new decisions."""


def after_last_assistant(messages: tuple[Message, ...]) -> int:
    """Index of the first message that no model has seen: everything behind the last assistant message."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return index + 1
    return 0


def last_words(messages: Sequence[Message]) -> int:
    """Index of the last message in which a user says something: the open turn begins there; -1 without one."""
    for index in range(len(messages) - 1, -1, -1):
        # Hardly any is a user's, and a call for each of the others would cost more than all else.
        if messages[index].role == "user" and says(messages[index]):
            return index
    return -1


def says(message: Message) -> bool:
    """Whether it is a user's and holds text."""
    return message.role == "user" and any(isinstance(part, Text) for part in message.parts)
