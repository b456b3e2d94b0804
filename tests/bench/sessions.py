"""Recorded agent sessions as the proxy sees them: viewed by the chat dialect, weighed by its scale.

A session file is (gzipped) JSON with `messages` and `tools` in OpenAI chat format; turn k answers the messages before
the k-th assistant message.
"""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from proxy.conversation.recall import Recall
from proxy.dialects.openai_chat import OpenAIChat
from proxy.exchange.rehearsal import Script, script_of
from proxy.server.tokenizers import counter
from proxy.tokens.estimate import Memo, Scale
from proxy.wire.body import dumps, loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    name: str
    domain: str
    stitched: bool
    script: Script

    @property
    def tokens(self) -> int:
        return self.script.head_tokens + sum(self.script.message_tokens)

    @property
    def held_out(self) -> bool:
        """A third of the sessions, by name, is not looked at while settings are chosen."""
        return blake2b(self.name.encode(), digest_size=2).digest()[0] % 3 == 0


def a_counter() -> Callable[[str], int]:
    """The counting function that everything here uses: o200k_base with a memory."""
    count = counter("o200k_base")
    known: dict[str, int] = {}

    def remembered(text: str) -> int:
        if (tokens := known.get(text)) is None:
            tokens = known[text] = count(text)
        return tokens

    return remembered


def sessions(paths: list[Path], count: Callable[[str], int]) -> Iterator[Session]:
    """All sessions of the given files and folders, in the order of their names."""
    scale = Scale(encoding="o200k_base", count=count, dialect="openai_chat", model="", memo=Memo())
    for path in (file for given in paths for file in (sorted(given.glob("*.json*")) if given.is_dir() else [given])):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        recorded = loads(raw)
        if isinstance(recorded, dict) and recorded.get("messages"):
            yield _session(recorded, path.name.split(".")[0], scale)


def _session(recorded: dict, name: str, scale: Scale) -> Session:
    body = dumps({"model": "", "messages": recorded["messages"], "tools": recorded.get("tools") or []})
    conversation = OpenAIChat().view("/v1/chat/completions", {}, body, Recall()).conversation
    return Session(
        name=recorded.get("id", name),
        domain=recorded.get("domain", ""),
        stitched=bool(recorded.get("stitched")),
        script=script_of(conversation, scale),
    )
