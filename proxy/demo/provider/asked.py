"""What an API module makes of a request body, and what it needs to write an answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, Protocol

from proxy.wire.body import dumps, loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Tokens that a vendor's prompt format puts around the texts."""

    message: int
    call: int
    """Part of the output that makes the call, too."""
    result: int
    request: int
    """Once a request: the priming of the reply."""
    tools: int = 0
    """Once a request that defines tools."""
    sequel: int = 0
    """For each further result in one message: parallel calls are taken apart into calls of their own."""
    arguments: Callable[[str], str] = str
    """Text of a call's arguments as the prompt holds it: as the model wrote it, or from the parsed object."""


def parsed(arguments: str) -> str:
    """The compact form of arguments that travel as an object."""
    return dumps(loads(arguments.encode() or b"{}")).decode()


# OpenAI cookbook, "How to count tokens with tiktoken": 3 a message and 1 for its role, 3 for the reply.
OPENAI_ENVELOPE = Envelope(message=4, call=3, result=3, request=3)


class Refused(Exception):
    """An error answer in the API's own shape."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.events: tuple[bytes, ...] = ()
        """Where the refusal comes as a stream behind a 200: its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which of the rules that only some models have are in force."""

    reasoning_back: Literal["", "deepseek", "kimi", "groq"] = ""
    """Chat: assistant messages with tool calls must carry `reasoning_content`, or for groq none may; the value chooses
    the error text."""
    prefix_check: bool = False
    """Messages: thinking is signed and bound to everything before it; an edit before it is refused or dropped."""
    signatures_back: bool = False
    """Gemini, and its form in chat: the first call of every step of the current turn needs its thought signature."""
    usage_always: bool = False
    """Chat: the last chunk with choices carries usage, asked or not (DeepSeek, Mistral)."""
    cache_writes: bool = False
    """Chat, Responses: `cache_write_tokens` is reported and priced (GPT-5.6 and later)."""
    stream_options: bool = True
    """Chat: False refuses the field (older gateways)."""
    media_tokens: int = 765
    """Tokens of one image, whatever it shows."""


ORDINARY = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that the model makes; `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model says."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: Literal["", "length"] = ""
    """Empty: by itself (stop or tool calls)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One piece of the prompt as the cache sees it: the tools, the system text or one message."""

    rendered: bytes
    texts: tuple[str, ...]
    overhead: int
    """Tokens besides those of the texts."""
    marked: bool = False
    """Carries a `cache_control` breakpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as far as counting and answering need it."""

    body: Mapping[str, Any]
    model: str
    units: tuple[Unit, ...]
    stream: bool
    assistants: int
    """Number of assistant messages in the history: the recorded answers' index."""
    last_text: str
    """Text of the last message."""
    last_is_user: bool
    """A person speaks last, not a tool."""
    tools: tuple[str, ...]
    marks_cache: bool | None = None
    """None: the cache is automatic. Otherwise only what stands before a breakpoint is cached."""
    bound: bytes = b""
    """Digest of the request as it came, which signed reasoning is bound to; empty: that of `units`."""
    transformations: tuple[Mapping[str, Any], ...] = ()
    """What the provider changed in the request and says so (`input_transformations`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Token counts of one call; `input` is everything, `read` and `written` are parts of it."""

    input: int
    read: int
    written: int
    output: int
    reasoning: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Everything that an answer is written from."""

    asked: Asked
    answer: Answer
    bill: Bill
    number: int
    """Counts the calls of this provider; ids are made from it."""
    created: int
    """Unix time."""
    rules: Rules
    seal: str
    """Signature over the whole prompt."""
    piece: int
    """Characters of text in one stream event."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Parts of the path (the model's name, for Gemini) and of the query, and `endpoint`: answer or count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request with a JSON object as its body."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]
    """Lower-case names."""
    arguments: Mapping[str, str]
    rules: Rules


class Api(Protocol):
    """One wire format."""

    @property
    def envelope(self) -> Envelope:
        """What its prompt format puts around the texts."""

    def asked(self, request: Request) -> Asked:
        """Check the body's structure and read it; raises Refused with the vendor's own text."""

    def counted(self, tokens: int) -> Any:
        """The answer of the count endpoint."""

    def overflow(self, asked: Asked, tokens: int, window: int) -> Refused:
        """The refusal of a prompt over the window."""

    def broken(self) -> Refused:
        """The refusal of a body that is not a JSON object."""

    def whole(self, reply: Reply) -> Any:
        """The answer as one JSON value."""

    def events(self, reply: Reply) -> Iterator[bytes]:
        """The answer as a stream, event by event."""

    def content_type(self, reply: Reply) -> str:
        """Media type of the stream."""


def without_marks(value: Any) -> Any:
    """The value without `cache_control`, which neither counts nor is compared."""
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    return value


def rendered(value: Any) -> bytes:
    """Canonical bytes for comparison: compact JSON without cache marks."""
    return dumps(without_marks(value))


def unit(value: Any, texts: Sequence[str], overhead: int = OPENAI_ENVELOPE.message) -> Unit:
    """A unit from its JSON value."""
    raw = dumps(value)
    marked = b'"cache_control":{' in raw
    return Unit(rendered=rendered(value) if marked else raw, texts=tuple(texts), overhead=overhead, marked=marked)


def tools_unit(tools: Any, overhead: int = 0) -> tuple[Unit, ...]:
    """The tool definitions as one unit, counted as compact JSON; none for no tools."""
    if not tools:
        return ()
    made = unit(tools, (), 0)
    return (Unit(rendered=made.rendered, texts=(made.rendered.decode(),), overhead=overhead, marked=made.marked),)


def chain(units: Sequence[Unit]) -> list[bytes]:
    """Digest of the prompt up to and including each unit."""
    keys = []
    key = b""
    for piece in units:
        key = blake2b(key + piece.rendered, digest_size=16).digest()
        keys.append(key)
    return keys


def seal(key: bytes) -> str:
    """A signature over a prompt, as the provider hands it out."""
    return "c2ln" + blake2b(key, digest_size=24, key=b"loopback").hexdigest()


def pieces(text: str, size: int) -> Iterator[str]:
    """The text in stream-sized pieces."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def sse(value: Any, name: str = "", end: bytes = b"\n") -> bytes:
    """One server-sent event."""
    head = b"event: " + name.encode() + end if name else b""
    return head + b"data: " + (value if isinstance(value, bytes) else dumps(value)) + end + end
