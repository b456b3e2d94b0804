"""Media parts: what can be known of them without decoding them."""

from collections.abc import Sequence
from typing import Any, Literal

from proxy.conversation.model import Media
from proxy.wire.body import Span, array_spans
from proxy.wire.images import size_of_base64

Kind = Literal["image", "audio", "video", "file"]


def from_url(kind: Kind, url: str, *, detail: str = "") -> Media:
    """A part given by URL: a `data:` URL tells its size, any other is a reference."""
    head, mark, payload = url.partition(";base64,")
    if mark and head.startswith("data:"):
        return from_base64(kind, payload, detail=detail)
    return Media(kind=kind, detail=detail, reference=url[:256])


def from_base64(kind: Kind, payload: str, *, detail: str = "") -> Media:
    """Inline bytes: dimensions are read from an image's first bytes only."""
    size = size_of_base64(payload) if kind == "image" else None
    width, height = size or (None, None)
    return Media(kind=kind, width=width, height=height, detail=detail, size_bytes=len(payload) * 3 // 4)


def from_audio(value: Any) -> Media:
    """A chat or Responses audio part: `{data: base64}`."""
    inline = value.get("data") if isinstance(value, dict) else None
    return from_base64("audio", inline) if isinstance(inline, str) else Media(kind="audio")


def from_file(value: Any) -> Media:
    """A chat or Responses file part: `{file_id}`, `{file_data: data URL}` or `{file_url}`."""
    file = value if isinstance(value, dict) else {}
    inline = file.get("file_data")
    if isinstance(inline, str):
        return from_url("file", inline if inline.startswith("data:") else "data:;base64," + inline)
    return Media(kind="file", reference=str(file.get("file_id") or file.get("file_url") or "")[:256])


def with_text(raw: bytes, span: Span, part: bytes, stays: Sequence[bool]) -> bytes:
    """The array at `span` with `part` in the place of all elements but those that stay, which keep their bytes."""
    if not any(stays):
        return b"[" + part + b"]"
    elements = [
        raw[start:end] if kept else b"" for (start, end), kept in zip(array_spans(raw, *span), stays, strict=True)
    ]
    at = elements.index(b"") if b"" in elements else len(elements)
    return b"[" + b",".join([*filter(None, elements[:at]), part, *filter(None, elements[at:])]) + b"]"
