"""Responses: new bytes for one item."""

from proxy.conversation.model import Media
from proxy.dialects.media import with_text
from proxy.dialects.openai_responses.items import content_parts, shell_entries
from proxy.wire.body import dumps, loads, object_spans, splice


def replace_output(item: bytes, text: str, *, keeps_media: bool = False) -> bytes:
    """The output item with other content, in the shape it had: string, list of parts, or list of shell outputs.

    `keeps_media`: all that is no text stays beside it.
    """
    span = object_spans(item)["output"]
    old = loads(item[slice(*span)])
    emptied = [{**entry, "stdout": "", "stderr": ""} for entry in shell_entries(old)]
    if emptied:
        # One entry for each command of the call, so their number and outcomes stay; the first says it all.
        new = dumps([{**emptied[0], "stdout": text}, *emptied[1:]])
    elif isinstance(old, list):
        media = [keeps_media and isinstance(part, Media) for part in content_parts(old)]
        new = with_text(item, span, dumps({"type": "input_text", "text": text}), media)
    else:
        new = dumps(text)
    return splice(item, [(span, new)])
