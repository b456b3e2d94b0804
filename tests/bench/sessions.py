"""Recorded agent sessions as neutral conversations, counted with the o200k encoding.

A session file is (gzipped) JSON with `messages` and `tools` in OpenAI chat format; turn k answers the messages before
the k-th assistant message. Token counts are kept on disk, since counting is what takes the time.
"""

import base64
import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from proxy.conversation.fingerprint import digest, prefix_keys, seed_key
from proxy.conversation.model import Message, Part, Text, ToolCall, ToolResult

PER_MESSAGE = 4
PER_CALL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    name: str
    domain: str
    stitched: bool
    head_tokens: int
    """System text and tool definitions."""
    tools: tuple[str, ...]
    messages: tuple[Message, ...]
    keys: tuple[bytes, ...]
    parts_tokens: tuple[tuple[int, ...], ...]
    message_tokens: tuple[int, ...]
    system_text: str

    @property
    def tokens(self) -> int:
        return self.head_tokens + sum(self.message_tokens)

    @property
    def answers(self) -> list[int]:
        """Indices of the assistant messages: one turn each."""
        return [index for index, message in enumerate(self.messages) if message.role == "assistant"]

    @property
    def held_out(self) -> bool:
        """A third of the sessions, by name, is not looked at while settings are chosen."""
        return blake2b(self.name.encode(), digest_size=2).digest()[0] % 3 == 0


class TokenCounter:
    """o200k counts with a memory on disk, so that a second run starts at once."""

    def __init__(self, encodings: Path | None = None) -> None:
        self._path = Path(tempfile.gettempdir()) / "pruning-proxy-bench-counts.json"
        self._known: dict[str, int] = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._new = 0
        self._encode = _encoder(encodings)
        self._texts: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if (tokens := self._texts.get(text)) is not None:
            return tokens
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        if (tokens := self._known.get(key)) is None:
            tokens = self._known[key] = self._encode(text)
            self._new += 1
        self._texts[text] = tokens
        return tokens

    def save(self) -> None:
        if self._new:
            temporary = self._path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(self._known))
            temporary.replace(self._path)
            self._new = 0


def _encoder(folder: Path | None) -> Callable[[str], int]:
    import tiktoken

    if folder is None:
        encoding = tiktoken.get_encoding("o200k_base")
    else:
        lines = (folder / "o200k_base.tiktoken").read_bytes().splitlines()
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
        pattern = "|".join(
            [
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            ]
        )
        encoding = tiktoken.Encoding("o200k_base", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def sessions(paths: list[Path], count: TokenCounter) -> Iterator[Session]:
    """All sessions of the given files and folders, in the order of their names."""
    files = [path for given in paths for path in (sorted(given.glob("*.json*")) if given.is_dir() else [given])]
    for path in files:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        recorded = json.loads(raw)
        if isinstance(recorded, dict) and recorded.get("messages"):
            yield _session(recorded, path.name.split(".")[0], count)
    count.save()


def _session(recorded: dict, name: str, count: TokenCounter) -> Session:
    tools = recorded.get("tools") or []
    lead = 0
    while recorded["messages"][lead]["role"] in ("system", "developer"):
        lead += 1
    system = "\n".join(_text(message.get("content")) for message in recorded["messages"][:lead])
    messages = tuple(_message(message) for message in recorded["messages"][lead:])
    parts = tuple(tuple(_tokens(part, count) for part in message.parts) for message in messages)
    return Session(
        name=recorded.get("id", name),
        domain=recorded.get("domain", ""),
        stitched=bool(recorded.get("stitched")),
        head_tokens=count(system) + count(json.dumps(tools, separators=(",", ":"))) + PER_MESSAGE,
        tools=tuple(tool.get("function", tool).get("name", "") for tool in tools),
        messages=messages,
        keys=tuple(prefix_keys(seed_key("openai_chat", name), messages)),
        parts_tokens=parts,
        message_tokens=tuple(PER_MESSAGE + sum(tokens) for tokens in parts),
        system_text=system,
    )


def _message(message: dict) -> Message:
    role = message["role"]
    text = _text(message.get("content"))
    parts: list[Part] = []
    if role in ("tool", "function"):
        parts.append(ToolResult(call_id=message.get("tool_call_id", ""), name=message.get("name") or "", text=text))
        role = "tool"
    elif text:
        parts.append(Text(text=text))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(ToolCall(call_id=call.get("id", ""), name=function["name"], arguments=function["arguments"]))
    return Message(role=role, parts=tuple(parts), digest=digest(message))


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _tokens(part: Part, count: TokenCounter) -> int:
    match part:
        case Text():
            return count(part.text)
        case ToolResult():
            return PER_CALL + count(part.text)
        case ToolCall():
            return PER_CALL + count(part.name) + count(part.arguments)
        case _:
            return 0
