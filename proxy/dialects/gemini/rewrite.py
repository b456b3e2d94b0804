"""Gemini: new bytes for one content."""

from collections.abc import Collection, Mapping

from proxy.dialects.fields import mapping
from proxy.dialects.gemini.contents import text_key
from proxy.dialects.gemini.spelling import spelled
from proxy.wire.body import Span, array_spans, dumps, loads, object_spans, splice, without_elements, without_keys


def replace_responses(content: bytes, texts: Mapping[int, str], keeping: Collection[int] = ()) -> bytes:
    """The content with other responses, part index → text. Names, ids, signatures and unknown keys stay.

    `keeping`: responses whose media stay, too.
    """
    spans = part_spans(content)
    changes = [
        (spans[index], _replaced(content[slice(*spans[index])], text, keeps_media=index in keeping))
        for index, text in texts.items()
    ]
    return splice(content, changes)


def strip_thoughts(content: bytes) -> bytes:
    """The content without `thought` parts; unchanged where nothing else would be left.

    Signatures on other parts stay: a call without its signature is refused.
    """
    spans = part_spans(content)
    doomed = {number for number, span in enumerate(spans) if _is_thought(content[slice(*span)])}
    if not doomed or len(doomed) == len(spans):
        return content
    return without_elements(content, object_spans(content)["parts"][0], spans, doomed)


def part_spans(content: bytes) -> list[Span]:
    """Spans of the content's parts; Google takes a single one without its list."""
    start, end = object_spans(content).get("parts", (0, 0))
    if content[start : start + 1] == b"[":
        return array_spans(content, start, end)
    return [(start, end)] if end else []


def _is_thought(part: bytes) -> bool:
    value = loads(part)
    return isinstance(value, dict) and value.get("thought") is True


def _replaced(part: bytes, text: str, *, keeps_media: bool) -> bytes:
    """A response is an object and stays one: its only text is replaced, else it becomes `{"output": text}`.

    What reports an error goes on doing so. Media that came with the response go with it, as they do where a list of parts
    becomes one text.
    """
    holders = object_spans(part)
    start, end = holders[spelled(holders, "functionResponse")]
    holder = part[start:end] if keeps_media else without_keys(part[start:end], ("parts",))
    at, stop = object_spans(holder)["response"]
    old = holder[at:stop]
    said = loads(old)
    key = text_key(said)
    whole = dumps({"error" if mapping(said).get("error") else "output": text})
    new = splice(old, [(object_spans(old)[key], dumps(text))]) if key else whole
    return splice(part, [((start, end), splice(holder, [((at, stop), new)]))])
