"""Anthropic Messages: cache breakpoints for clients that set none.

Without a `cache_control` mark Anthropic caches nothing. At most four may stand in a request (Anthropic docs, "Prompt
caching"): here one behind the tools, one behind the system text, and two that roll with the history. The older of these
stands where the call before had its newest, so that what that call wrote is found however many blocks came since. A mark
does not count in what is compared, and neither does text given as a string or as one block.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from proxy.dialects.fields import mapping
from proxy.wire.body import NotPlain, Span, array_spans, loads, object_spans, splice, with_keys

_MARK = b'{"type":"ephemeral"}'
_KEY = "cache_control"
_MARKED_KEY = b'"cache_control"'
_MARKED = re.compile(_MARKED_KEY + rb"\s*:\s*(\{[^{}]*\})")
_MOST_MARKS = 4
_ROLLING = 2
_BEARERS = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""Content blocks that may carry a mark; thinking may not."""
_FOREIGN = ("input", "input_schema")
"""Keys whose values are the model's or a tool's own words, whatever they look like."""

Change = tuple[Span, bytes]


def mark_cache(body: bytes) -> bytes:
    """The request with breakpoints; the very same bytes where it has one already, or cannot be read."""
    try:
        if _KEY.encode() in body and _is_marked(loads(body)):
            return body
        fields = object_spans(body)
        changes = [
            *_on_tools(body, fields.get("tools")),
            *_on_content(body, fields.get("system")),
            *_on_messages(body, fields.get("messages")),
        ]
    except (NotPlain, ValueError, RecursionError):
        return body
    return splice(body, changes) if changes else body


def moved_mark(body: bytes, lost: bytes) -> bytes:
    """The request with a breakpoint in front of its last message, if the client's newest stood in `lost`, its old end.

    There an earlier call had ended, or not far in front of it, so what that call wrote is found.
    """
    marks = _MARKED.findall(lost)
    if not marks or body.count(_MARKED_KEY) >= _MOST_MARKS:
        return body
    try:
        elements = _elements(body, object_spans(body).get("messages"))
        marked = (change for at in reversed(elements[:-1]) if (change := _on_message(body, at, marks[-1])))
        return splice(body, next(marked, []))
    except (NotPlain, ValueError, RecursionError):
        return body


def _is_marked(value: Any) -> bool:
    """Whether a mark stands anywhere in the request."""
    if isinstance(value, dict):
        return value.get(_KEY) is not None or any(
            _is_marked(item) for key, item in value.items() if key not in _FOREIGN
        )
    return isinstance(value, list) and any(map(_is_marked, value))


def _on_tools(body: bytes, span: Span | None) -> list[Change]:
    """On the last definition that is sent to the model from the start: a deferred one may carry none."""
    for at in reversed(_elements(body, span)):
        tool = mapping(loads(body[slice(*at)]))
        if tool and tool.get("defer_loading") is not True:
            return [(at, _with_mark(body[slice(*at)]))]
    return []


def _on_messages(body: bytes, span: Span | None) -> list[Change]:
    """On the last two messages of the user in which something may carry a mark."""
    marked = (change for at in reversed(_elements(body, span)) if (change := _on_message(body, at)))
    return [change for changes in islice(marked, _ROLLING) for change in changes]


def _on_message(body: bytes, at: Span, mark: bytes = _MARK) -> list[Change]:
    fields = object_spans(body, *at)
    role = loads(body[slice(*fields["role"])]) if "role" in fields else None
    return _on_content(body, fields.get("content"), mark) if role == "user" else []


def _on_content(body: bytes, span: Span | None, mark: bytes = _MARK) -> list[Change]:
    """On the last block that may carry a mark; a string becomes a text block."""
    if span is None:
        return []
    raw = body[slice(*span)]
    if raw[:1] == b'"':
        block = b'[{"type":"text","text":' + raw + b',"cache_control":' + mark + b"}]"
        return [(span, block)] if str(loads(raw)).strip() else []
    for at in reversed(_elements(body, span)):
        if _may_carry(mapping(loads(body[slice(*at)]))):
            return [(at, _with_mark(body[slice(*at)], mark))]
    return []


def _may_carry(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind in _BEARERS and (kind != "text" or bool(str(block.get("text") or "").strip()))


def _with_mark(raw: bytes, mark: bytes = _MARK) -> bytes:
    return with_keys(raw, {_KEY: mark})


def _elements(body: bytes, span: Span | None) -> Sequence[Span]:
    """Spans of an array's elements; none for what is no array."""
    return array_spans(body, *span) if span is not None and body[span[0] : span[0] + 1] == b"[" else ()
