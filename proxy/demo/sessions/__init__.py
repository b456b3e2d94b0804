"""Recorded agent sessions: the one that is shipped, and how a file of one is read. I/O.

A session is (gzipped) JSON with `messages` in OpenAI chat format and, if it has them, `tools`. Turn k (from 0) answers
the messages before the k-th assistant message. The shipped session keeps its `source` and `licence` fields.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from proxy.dialects.fields import mapping, objects
from proxy.errors import SettingsError
from proxy.wire.body import loads

SHIPPED = "pi-refactor-s2"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One recorded conversation."""

    name: str
    agent: str
    source: str
    """Where it was published; empty when the file does not say."""
    licence: str
    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]]
    stitched: bool = False
    """Several real conversations joined into one."""

    def turns(self) -> Iterator[tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]]:
        """Each turn's history and the recorded answer to it."""
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant":
                yield self.messages[:index], message


def shipped() -> Session:
    """The session that comes with this package."""
    file = resources.files("proxy.demo.sessions").joinpath(f"{SHIPPED}.json.gz")
    return read(file.read_bytes(), SHIPPED)


def load(path: Path) -> Session:
    """A session from a file; raises SettingsError when it is none or cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"--session: cannot read {path}: {error.strerror}") from error
    return read(raw, path.name)


def read(raw: bytes, name: str) -> Session:
    """A session from a file's bytes; raises SettingsError. `name`: the file's."""
    try:
        value = loads(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error, RecursionError) as error:
        raise SettingsError(f"--session: {name}: expected JSON, plain or gzipped, got something else") from error
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not _is_history(messages):
        raise SettingsError(f"--session: {name}: expected `messages` in OpenAI chat format, with an assistant's answer")
    source = mapping(value.get("source"))
    place = f"{source.get('repo', '')}/{source.get('path', '')}".strip("/")
    return Session(
        name=str(value.get("id") or name.partition(".")[0]),
        agent=str(value.get("agent") or ""),
        source=place,
        licence=str(value.get("licence") or ""),
        tools=tuple(objects(value.get("tools"))),
        messages=tuple(messages),
        stitched=bool(value.get("stitched")),
    )


def _is_history(messages: list[Any]) -> bool:
    if not all(map(_is_message, messages)):
        return False
    roles = [message.get("role") for message in messages]
    return "assistant" in roles[1:] and roles[0] != "assistant"


def _is_message(message: Any) -> bool:
    content, calls = mapping(message).get("content"), mapping(message).get("tool_calls") or []
    if not isinstance(mapping(message).get("role"), str) or not isinstance(calls, list):
        return False
    said = content is None or isinstance(content, str) or _all_objects(content)
    return said and all(map(_is_call, calls))


def _all_objects(value: Any) -> bool:
    return isinstance(value, list) and len(objects(value)) == len(value)


def _is_call(call: Any) -> bool:
    function = mapping(mapping(call).get("function"))
    held = (mapping(call).get("id"), function.get("name"), function.get("arguments"))
    return all(isinstance(text, str) for text in held)
