"""Messages to tokens, each message once.

A `Scale` weighs with one counter, one dialect's overheads and one model's media rules. Weights are memoised under the
message's digest, so a turn weighs only what it adds. Nothing here raises: a counter must not (see server.tokenizers).

Special tokens (`<|endoftext|>`) in a message are text, since providers treat them so. Reasoning counts where the body
carries it; encrypted reasoning has no text and costs what its dialect gives as text, usually nothing: the anchor's
`last_output` already holds it. Where a dialect gives the sealed text, its length stands for the tokens in it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import Final

import msgspec

from proxy.conversation.model import (
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Tools,
)
from proxy.tokens.media import media_tokens

Count = Callable[[str], int]
"""Number of tokens of a text. Never raises."""

MOST_OPAQUE_TOKENS: Final = 400
_SEALED_CHARS: Final = 200
"""A signed text whose end goes so long without a space is not written language but sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """Tokens that a wire format adds around the texts."""

    message: int
    call: int
    result: int
    request: int
    """Once a request: the priming of the reply."""
    tools: int = 0
    """Once a request that defines tools."""
    sequel: int = 0
    """For each further result in one message."""


OVERHEADS: Final[dict[str, Overheads]] = {
    # 3 a message, 1 for the role, 3 for the reply: OpenAI cookbook "How to count tokens with tiktoken". 3 for the id of
    # a call or result: recorded sessions (see tests/data/trajectories/README.md, which counts so).
    "openai_chat": Overheads(message=4, call=3, result=3, request=3),
    # Recorded (gpt-4o, gpt-4.1): a call with its result adds 12 to 14 tokens to their texts; each is an item of its own.
    "openai_responses": Overheads(message=4, call=3, result=3, request=3),
    # 346 for the system prompt that tools bring along: docs "Tool use", pricing, 2025-12; recorded 338 to 370 with one or
    # two tools. Recorded (claude-3-7 to opus-4-6, 818 turns): an answer and what follows it add 3 or 4 tokens, a call 40
    # to 56 (its output count holds them), the first result behind it 8 and each further one of the same message 38 to 46.
    "anthropic_messages": Overheads(message=2, call=45, result=8, request=4, tools=346, sequel=32),
    # Recorded (gemini-2.0-flash, 2.5): turns, calls and results add nothing to their texts.
    "gemini": Overheads(message=1, call=0, result=0, request=0),
}
"""Dialect name → overheads. A learned model (tokens.learn) corrects what is left."""

_DEFAULT: Final = OVERHEADS["openai_chat"]


class Weight(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one message."""

    total: int
    """`sum(parts) + overhead`."""
    reasoning: int
    """Part of the total: reasoning that the body carries."""
    parts: tuple[int, ...]
    """Tokens of each part with its own overhead, in order."""
    overhead: int


# Slot, key and a weight without its parts, and each of these: measured.
_WEIGHT_BYTES: Final = 420
_PART_BYTES: Final = 40


Weighable = tuple[str, bytes]
"""A scale's name, and the digest of what is weighed."""


class Memo:
    """Weights that are known, bounded by memory; least recently used go first. One a process, shared by all scales."""

    def __init__(self, room_bytes: int = 6 * 1024 * 1024) -> None:
        self._room = room_bytes
        self._held = 0
        self._known: OrderedDict[Weighable, Weight] = OrderedDict()

    def get(self, key: Weighable) -> Weight | None:
        """The weight, if it was ever taken."""
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def put(self, key: Weighable, weight: Weight) -> None:
        """Remember a weight that is not known yet."""
        self._known[key] = weight
        self._held += _size_of(weight)
        while self._held > self._room:
            _, gone = self._known.popitem(last=False)
            self._held -= _size_of(gone)

    def __len__(self) -> int:
        return len(self._known)


def _size_of(weight: Weight) -> int:
    return _WEIGHT_BYTES + _PART_BYTES * len(weight.parts)


class Scale:
    """Weighs texts, messages and tools of requests in one dialect to one model; the memo is what lasts."""

    def __init__(self, *, encoding: str, count: Count, dialect: str, model: str, memo: Memo) -> None:
        self.encoding = encoding
        self.count = count
        self.overheads = OVERHEADS.get(dialect, _DEFAULT)
        self._model = model
        self._memo = memo
        # Media weigh differently by model, envelopes by dialect, texts by encoding.
        # The memo keeps it with every weight: one string for all of them.
        self.name = intern(f"{encoding}\0{dialect}\0{model}")
        """Weights under the same name are the same."""

    def weigh(self, message: Message) -> Weight:
        """Tokens of a message, counted once a process."""
        key = self.name, message.digest
        known = self._memo.get(key)
        if known is None:
            known = self._weigh(message)
            self._memo.put(key, known)
        return known

    def is_known(self, message: Message) -> bool:
        """Whether weighing this message costs nothing any more."""
        return self._memo.get((self.name, message.digest)) is not None

    def weigh_messages(self, messages: Iterable[Message]) -> int:
        """Tokens of all these messages together."""
        total = 0
        for message in messages:
            total += self.weigh(message).total
        return total

    def weigh_text(self, text: str) -> int:
        """Tokens of a text alone, without an envelope: what a replaced content will weigh."""
        return self.count(text)

    def weigh_tools(self, tools: Tools) -> int:
        """Tokens of the tool definitions; 0 without tools."""
        if not tools.text:
            return 0
        key = self.name, b"tools\0" + tools.digest
        known = self._memo.get(key)
        if known is None:
            total = self.count(tools.text) + self.overheads.tools
            known = Weight(total=total, reasoning=0, parts=(), overhead=total)
            self._memo.put(key, known)
        return known.total

    def tools_known(self, tools: Tools) -> bool:
        """Whether weighing these tools costs nothing any more."""
        return not tools.text or self._memo.get((self.name, b"tools\0" + tools.digest)) is not None

    def _weigh(self, message: Message) -> Weight:
        parts: list[int] = []
        reasoning = results = unseen = 0
        for part in message.parts:
            # Most are.
            if isinstance(part, Text):
                parts.append(self.count(part.text))
                continue
            tokens = self._part(part)
            parts.append(tokens)
            if isinstance(part, Reasoning):
                reasoning += tokens
            elif isinstance(part, ToolResult):
                results += not part.to_code
                unseen += part.to_code
            elif isinstance(part, ToolCall) and part.caller:
                unseen += 1
        overhead = self.overheads.message
        if results > 1:
            overhead += self.overheads.sequel * (results - 1)
        if unseen and unseen == len(parts):
            overhead = 0
        return Weight(total=sum(parts) + overhead, reasoning=reasoning, parts=tuple(parts), overhead=overhead)

    def _part(self, part: Media | ToolCall | ToolResult | Reasoning | Opaque) -> int:
        match part:
            case Reasoning():
                return self._reasoning(part)
            case ToolCall(caller=""):
                return self.count(part.name) + self.count(part.arguments) + self.overheads.call
            case ToolCall() | ToolResult(to_code=True):
                # Between code and the client: recorded (sonnet-4-6), neither adds a token to any prompt.
                return 0
            case ToolResult():
                media = sum(media_tokens(medium, model=self._model) for medium in part.media)
                return self.count(part.text) + media + self.overheads.result
            case Media():
                return media_tokens(part, model=self._model)
            case Opaque():
                return min(MOST_OPAQUE_TOKENS, part.size_chars // 4)

    def _reasoning(self, part: Reasoning) -> int:
        tokens = self.count(part.text)
        # Encrypted reasoning is base64, which tokenizers split finely: six characters of it stand for a token inside.
        sealed = part.signed and len(part.text) > _SEALED_CHARS and " " not in part.text[-_SEALED_CHARS:]
        return min(tokens, len(part.text) // 6) if sealed else tokens


def rule_of_thumb(text: str) -> int:
    """Tokens without a tokenizer: a quarter of a token for an ASCII character, 1.5 for any other, rounded half up.

    The figures of gemini-cli's `tokenCalculation.ts` (2026-08); characters are code points, so an emoji is one.
    """
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 6 * (len(text) - plain) + 2) // 4


def texts_of(message: Message) -> Iterator[str]:
    """Every text that weighing this message counts, in order."""
    for part in message.parts:
        match part:
            case Text() | Reasoning() | ToolResult():
                yield part.text
            case ToolCall(caller=""):
                yield part.name
                yield part.arguments
            case ToolCall() | Media() | Opaque():
                pass
