"""Anthropic Messages: new bytes for one message."""

from collections.abc import Collection, Mapping
from typing import Any

from proxy.conversation.model import Media
from proxy.dialects.anthropic_messages.view import REASONING_TYPES, content_parts
from proxy.dialects.base import DropOption, Splice, View
from proxy.dialects.fields import mapping
from proxy.dialects.media import with_text
from proxy.wire.body import Span, array_spans, dumps, loads, object_spans, splice, with_keys, without_elements

_DROP_BETA = (b"anthropic-beta", b"thinking-binding-controls-2026-08-01")


def replace_results(message: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
    """The message with other content in these `tool_result` blocks: text stays text, a list gets one text block.

    `keeping`: results whose media stay as they are, behind or in front of it.
    """
    changes: list[tuple[Span, bytes]] = []
    for index, span in enumerate(_blocks(message)):
        if index not in texts:
            continue
        fields = object_spans(message, *span)
        if "content" not in fields or loads(message[slice(*fields["type"])]) != "tool_result":
            continue
        changes.append(
            (fields["content"], _content(message, fields["content"], texts[index], keeps_media=index in keeping))
        )
    return splice(message, changes) if changes else message


def _content(message: bytes, span: Span, text: str, *, keeps_media: bool) -> bytes:
    """The new content in the shape of the old; a cache mark inside the old one stays, none is ever added."""
    old = loads(message[slice(*span)])
    if not isinstance(old, list):
        return dumps(text)
    media = [keeps_media and isinstance(part, Media) for part in content_parts(old)]
    block: dict[str, Any] = {"type": "text", "text": text}
    replaced = (mapping(item) for item, stays in zip(old, media, strict=True) if not stays)
    marks = [item["cache_control"] for item in replaced if item.get("cache_control") is not None]
    if marks:
        block["cache_control"] = marks[-1]
    return with_text(message, span, dumps(block), media)


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
