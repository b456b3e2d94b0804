"""Gemini: keeping the signatures of an answer's calls, and putting them in again.

    ["c2ln…", null]      one for each call, in order

Thought texts need not come back, signatures must; in parallel calls only the first has one (Gemini API docs, "Thought
signatures", 2026-10).
"""

from typing import Any

from proxy.dialects.fields import mapping
from proxy.dialects.gemini.rewrite import part_spans
from proxy.dialects.gemini.spelling import either
from proxy.dialects.kept import Room, packed
from proxy.wire.body import Span, dumps, loads, splice, with_keys


class KeptSignatures:
    """The signatures of one candidate's calls."""

    def __init__(self) -> None:
        self._room = Room()
        self._calls: list[str | None] = []

    def call(self, part: dict[str, Any]) -> None:
        """The next call's part."""
        signature = either(part, "thoughtSignature")
        fits = isinstance(signature, str) and bool(signature) and self._room.take(signature)
        self._calls.append(signature if fits else None)

    def packed(self) -> str:
        """The form in which it is stored; empty when there was none."""
        signed = not self._room.exceeded and any(self._calls)
        return packed([(0, self._calls)] if signed else [], sealed=True)


def restore(content: bytes, payload: str) -> bytes:
    """The content with a signature on each call that has none and had one."""
    changes: list[tuple[Span, bytes]] = []
    signatures = iter(loads(payload.encode()))
    for span in part_spans(content):
        part = mapping(loads(content[slice(*span)]))
        if not isinstance(either(part, "functionCall"), dict):
            continue
        signature = next(signatures, None)
        if signature and not either(part, "thoughtSignature"):
            changes.append((span, with_keys(content[slice(*span)], {"thoughtSignature": dumps(signature)})))
    return splice(content, changes) if changes else content
