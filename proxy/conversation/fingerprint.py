"""A conversation's identity is its history: a chained digest over the meaning of its messages.

    seed = keyed by dialect and caller          key[0] = H(seed, digest(message 0))
                                                key[i] = H(key[i-1], digest(message i))

Two requests share `key[i]` exactly when they share their first i+1 messages (and the caller and the dialect), however
the client orders its JSON keys. System text and tools are not in the chain: agents change them in mid-conversation.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from proxy.conversation.model import Message, Text, ToolCall

KEY_BYTES = 16
_PIECES = 32
"""So many deltas of an answer are hashed at one go."""
_LONG_CHARS = 1024

# A mark that moves from turn to turn without changing what is said: Anthropic's cache breakpoints.
_MEANINGLESS = frozenset({"cache_control"})


def meaning(value: Any) -> Any:
    """The value without what does not count: cache marks, nulls, and the difference of a string to one text part."""
    if isinstance(value, dict):
        return {
            key: item if isinstance(item, str) else _content(item) if key == "content" else meaning(item)
            for key, item in value.items()
            if item is not None and key not in _MEANINGLESS
        }
    if isinstance(value, list):
        return [meaning(item) for item in value]
    return value


def _content(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        part = meaning(value[0])
        if part.keys() == {"type", "text"} and part["type"] in ("text", "input_text", "output_text"):
            return part["text"]
    return meaning(value)


def digest(value: Any) -> bytes:
    """16 bytes over the meaning of a parsed JSON value."""
    try:
        canonical = orjson.dumps(meaning(value), option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Lone surrogates and integers over 64 bits are legal JSON that orjson cannot write.
        canonical = repr(_sorted(meaning(value))).encode("utf-8", "surrogatepass")
    return blake2b(canonical, digest_size=KEY_BYTES).digest()


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _sorted(item)) for key, item in value.items())
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


@lru_cache(maxsize=1024)
def seed_key(dialect: str, caller: str) -> bytes:
    """The chain's start. `caller` is the proxy key's name or a keyed digest of a credential, never the credential."""
    return blake2b(f"{dialect}\0{caller}".encode(), digest_size=KEY_BYTES).digest()


def history_key(seed: bytes, name: str) -> bytes:
    """The key of a history that the provider holds under a name (`previous_response_id`, a conversation's id)."""
    return blake2b(seed + name.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES, person=b"history").digest()


def prefix_keys(seed: bytes, messages: Sequence[Message], known: Sequence[bytes] = ()) -> list[bytes]:
    """The chained key behind each message: `keys[i]` identifies messages 0…i.

    `known`: the keys of the first messages, which are left out.
    """
    keys = []
    key = known[-1] if known else seed
    for message in messages[len(known) :]:
        key = blake2b(key + message.digest, digest_size=KEY_BYTES).digest()
        keys.append(key)
    return keys


def index_of(keys: Sequence[bytes]) -> dict[bytes, int]:
    """Prefix key → index of its message."""
    return dict(zip(keys, range(len(keys)), strict=True))


def earlier_ends(messages: Sequence[Message], known: Sequence[int] = ()) -> list[int]:
    """For each message where the newest request before it ended: in front of a run of assistant messages; -1 for none.

    `known`: the same of the first messages, which are left out.
    """
    found = []
    end = known[-1] if known else -1
    for index in range(len(known), len(messages)):
        if index and messages[index].role == "assistant" and messages[index - 1].role != "assistant":
            end = index - 1
        found.append(end)
    return found


def boundaries(ends: Sequence[int], most: int = 48) -> list[int]:
    """Where an earlier request may have ended, deepest first: indices i such that messages 0…i were once sent.

    The whole request comes first (a retry), then what `earlier_ends` says. Of very long histories only the newest `most`
    are asked for: a turn's own predecessor is nearly always the first of them.
    """
    found = []
    end = len(ends) - 1
    for _ in range(most):
        if end < 0:
            break
        found.append(end)
        end = ends[end]
    return found


class ReplyPrint:
    """Recognises an answer when it comes back: its visible text without white space, and the names of its calls.

    Loose on purpose: clients trim text, write arguments anew and drop reasoning. Fed piece by piece, it holds hardly any text.
    """

    def __init__(self) -> None:
        self._text: blake2b | None = None
        """Begun with the first text that is taken in: of most answers there is no other."""
        self._pieces: list[str] = []
        self._names: list[str] = []
        self.visible_chars = 0
        """Length of text and call arguments, for sharing a bill among several choices."""

    def text(self, piece: str) -> None:
        """Take visible text."""
        self.visible_chars += len(piece)
        self._pieces.append(piece)
        if len(self._pieces) >= _PIECES or len(piece) > _LONG_CHARS:
            self._take_in()

    def call(self, name: str) -> None:
        """Take the name of the next tool call."""
        self._names.append(name)

    def digest(self) -> bytes:
        """16 bytes."""
        text = self._take_in().digest()
        names = "\0".join(self._names).encode("utf-8", "surrogatepass")
        return blake2b(text + names, digest_size=KEY_BYTES).digest()

    def _take_in(self) -> blake2b:
        said = "".join("".join(self._pieces).split()).encode("utf-8", "surrogatepass")
        self._pieces.clear()
        if self._text is None:
            self._text = blake2b(said, digest_size=KEY_BYTES)
        else:
            self._text.update(said)
        return self._text


def reply_print(messages: Iterable[Message]) -> bytes:
    """The print of an answer as a client sent it back: one assistant message, or a run of them."""
    known = ReplyPrint()
    for message in messages:
        for part in message.parts:
            if isinstance(part, Text):
                known.text(part.text)
            elif isinstance(part, ToolCall):
                known.call(part.name)
    return known.digest()
