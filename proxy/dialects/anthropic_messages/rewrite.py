"""Anthropic Messages: new bytes for one message."""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.anthropic_messages.view import REASONING_TYPES
from proxy.dialects.base import DropOption, Splice, View
from proxy.dialects.fields import mapping
from proxy.wire.body import Span, array_spans, dumps, loads, object_spans, splice, with_keys, without_elements

_DROP_BETA = (b"anthropic-beta", b"thinking-binding-controls-2026-08-01")


def replace_results(message: bytes, texts: Mapping[int, str]) -> bytes:
    """The message with other content in these `tool_result` blocks: text stays text, a list gets one text block."""
    changes: list[tuple[Span, bytes]] = []
    for index, span in enumerate(_blocks(message)):
        if index not in texts:
            continue
        fields = object_spans(message, *span)
        if "content" not in fields or loads(message[slice(*fields["type"])]) != "tool_result":
            continue
        old = loads(message[slice(*fields["content"])])
        changes.append((fields["content"], dumps(_content(old, texts[index]))))
    return splice(message, changes) if changes else message


def _content(old: object, text: str) -> Any:
    """The new content in the shape of the old; a cache mark inside the old one stays, none is ever added."""
    if not isinstance(old, list):
        return text
    block: dict[str, Any] = {"type": "text", "text": text}
    marks = [item["cache_control"] for item in old if mapping(item).get("cache_control") is not None]
    if marks:
        block["cache_control"] = marks[-1]
    return [block]


def strip_reasoning(message: bytes) -> bytes:
    """The message without its thinking blocks, each whole; unchanged where nothing that counts would be left."""
    spans = _blocks(message)
    blocks = [mapping(loads(message[slice(*span)])) for span in spans]
    doomed = {index for index, block in enumerate(blocks) if block.get("type") in REASONING_TYPES}
    kept = [block for index, block in enumerate(blocks) if index not in doomed]
    # Text that is empty or blank is refused just as no content is.
    if not doomed or all(block.get("type") == "text" and not str(block.get("text") or "").strip() for block in kept):
        return message
    return without_elements(message, object_spans(message)["content"][0], spans, doomed)


def drop_option(view: View) -> DropOption | None:
    """The documented way to have blocks dropped that are bound to another prefix; None without a `thinking` object.

    Anthropic docs, "Prefix checks on thinking blocks" (2026-08): the option counts for one request, so it stands in
    every later one, too. A wish of the client's own stays.
    """
    start, end = view.fields.get("thinking", (0, 0))
    thinking = mapping(loads(view.body[start:end])) if end else {}
    if thinking.get("type") not in ("adaptive", "enabled"):
        return None
    wish = {**mapping(thinking.get("block_binding")), "prefix_mismatch_behavior": "drop_block"}
    text = with_keys(view.body[start:end], {"block_binding": dumps(wish)})
    return DropOption(splices=(Splice(start=start, end=end, text=text),), header=_DROP_BETA)


def _blocks(message: bytes) -> list[Span]:
    """Spans of the content blocks; none where content is a string or absent."""
    start, end = object_spans(message).get("content", (0, 0))
    return array_spans(message, start, end) if message[start : start + 1] == b"[" else []
