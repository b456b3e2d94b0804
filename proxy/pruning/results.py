"""The tool results of a history, each with what never changes about it: looked at once, when it comes in."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import orjson

from proxy.conversation.edit import Edit, Replace, edits_of
from proxy.conversation.model import Message, ToolCall, ToolResult
from proxy.conversation.pairing import Pair
from proxy.conversation.recall import by_hash
from proxy.pruning.reading import reads_file

Made = tuple[str, bytes]
"""A call as another one may have made it again: the tool, and its arguments without the order of their keys."""


class Standing(NamedTuple):
    """One tool result of the request. A tuple, since every request makes hundreds of them."""

    message: int
    part: int
    key: bytes
    """Prefix key of its message."""
    result: ToolResult
    call: ToolCall | None
    tokens: int
    """Estimated tokens of what stands there now."""
    edit: Replace | None = None
    """The newest inherited edit of this result."""
    broken: bool = False
    """Its turn has a call without a result or a result without a call."""
    call_message: int = -1
    """Index of the message that holds the call; -1 for an orphan."""
    calls: int = -1
    """Number of calls in that message, each of which is owed a result; -1 for an orphan."""
    made: Made | None = None
    """None for an orphan."""
    reads: bool = False
    """The text of a file, as its call says."""

    @property
    def tool(self) -> str:
        """The tool's name; empty when nobody says."""
        return self.call.name if self.call else self.result.name

    @property
    def gone(self) -> bool:
        """Already replaced by a placeholder: never touched again. What was shortened may still go."""
        return self.edit is not None and self.edit.kind == "clear"

    @property
    def text(self) -> str:
        """The text that stands there now."""
        return self.edit.text if self.edit else self.result.text

    def edited(self, edit: Replace) -> "Standing":
        """The same result as this edit has left it."""
        return Standing(*self[:5], edit.tokens_after, edit, *self[7:])


def results_of(
    found: Sequence[Pair], messages: Sequence[Message], keys: Sequence[bytes], tokens: Callable[[int], Sequence[int]]
) -> tuple[Standing, ...]:
    """These results as the client sent them. `tokens`: estimated tokens of each part of message i."""
    return tuple(
        Standing(
            pair.message,
            pair.part,
            keys[pair.message],
            pair.result,
            pair.call,
            tokens(pair.message)[pair.part],
            call_message=pair.call_message,
            calls=_calls(messages[pair.call_message]) if pair.call else -1,
            made=(pair.call.name, _canonical(pair.call.arguments)) if pair.call else None,
            reads=reads_file(pair.call),
        )
        for pair in found
    )


def replacements(edits: Sequence[Edit]) -> dict[tuple[bytes, int], Replace]:
    """By message and part: of several replacements of one result, the one decided last stands."""
    return {(edit.at, edit.part): edit for edit in edits_of(edits, Replace)}


def edited(found: Sequence[Standing], replaced: Mapping[tuple[bytes, int], Replace]) -> tuple[Standing, ...]:
    """These results as `replacements` have left them."""
    edits = [replaced.get((standing.key, standing.part)) for standing in found]
    return tuple(
        [standing if edit is None else standing.edited(edit) for standing, edit in zip(found, edits, strict=True)]
    )


def _calls(message: Message) -> int:
    return sum([isinstance(part, ToolCall) for part in message.parts])


@by_hash(most=16_384)
def _canonical(arguments: str) -> bytes:
    """16 bytes for arguments without the order of their keys; for those as they are when they are not JSON, or too deep."""
    try:
        canonical = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        canonical = arguments.encode("utf-8", "surrogatepass")
    return blake2b(canonical, digest_size=16).digest()
