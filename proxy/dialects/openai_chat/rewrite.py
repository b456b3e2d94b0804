"""Chat completions: new bytes for one message, and the request for usage."""

from proxy.conversation.model import Media
from proxy.dialects.base import Splice, View
from proxy.dialects.media import with_text
from proxy.dialects.openai_chat.view import REASONING_FIELDS, content_parts, parse_message
from proxy.wire.body import array_spans, dumps, loads, object_spans, splice, without_elements, without_keys


def replace_result(message: bytes, text: str, *, keeps_media: bool = False) -> bytes:
    """The tool message with other content: a string stays a string, a list becomes a list of one text part.

    `keeps_media`: all that is no text stays beside it.
    """
    start, end = object_spans(message)["content"]
    if message.startswith(b"[", start):
        old = loads(message[start:end])
        media = [keeps_media and isinstance(part, Media) for part in content_parts(old)]
        part = {"type": "text", "text": text}
        replaced = [item for item, stays in zip(old, media, strict=True) if not stays]
        marked = next((item for item in reversed(replaced) if isinstance(item, dict) and "cache_control" in item), None)
        if marked is not None:
            part["cache_control"] = marked["cache_control"]
        return splice(message, [((start, end), with_text(message, (start, end), dumps(part), media))])
    return splice(message, [((start, end), dumps(text))])


def strip_reasoning(message: bytes) -> bytes:
    """The message without reasoning; unchanged where nothing else would be left."""
    stripped = without_keys(message, REASONING_FIELDS)
    start, end = object_spans(stripped).get("content", (0, 0))
    if stripped[start : start + 1] == b"[":
        elements = array_spans(stripped, start, end)
        doomed = {number for number, span in enumerate(elements) if _is_thinking(stripped[slice(*span)])}
        stripped = without_elements(stripped, start, elements, doomed) if doomed else stripped
    return stripped if parse_message(stripped).parts else message


def _is_thinking(element: bytes) -> bool:
    part = loads(element)
    return isinstance(part, dict) and part.get("type") == "thinking"


def ask_usage(view: View) -> tuple[Splice, ...]:
    """`"stream_options":{"include_usage":true}`, put in without touching anything else."""
    if view.asks_usage or not view.conversation.stream:
        return ()
    if "stream_options" not in view.fields:
        end = max(end for _, end in view.fields.values())
        return (Splice(start=end, end=end, text=b',"stream_options":{"include_usage":true}'),)
    start, end = view.fields["stream_options"]
    options = loads(view.body[start:end])
    merged = {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
    return (Splice(start=start, end=end, text=dumps(merged)),)
