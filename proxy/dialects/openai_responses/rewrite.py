"""Responses: new bytes for one item."""

from typing import Any

from proxy.dialects.openai_responses.items import shell_entries
from proxy.wire.body import dumps, loads, object_spans, splice


def replace_output(item: bytes, text: str) -> bytes:
    """The output item with other content, in the shape it had: string, list of parts, or list of shell outputs."""
    start, end = object_spans(item)["output"]
    return splice(item, [((start, end), dumps(_output(loads(item[start:end]), text)))])


def _output(old: Any, text: str) -> Any:
    emptied = [{**entry, "stdout": "", "stderr": ""} for entry in shell_entries(old)]
    if emptied:
        # One entry for each command of the call, so their number and outcomes stay; the first says it all.
        return [{**emptied[0], "stdout": text}, *emptied[1:]]
    return [{"type": "input_text", "text": text}] if isinstance(old, list) else text
