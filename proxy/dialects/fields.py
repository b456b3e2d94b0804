"""Small readings that all dialects share: values of a request's fields, counts in an answer, tool definitions.

JSON from outside may hold anything anywhere, so each function says what it makes of the wrong type.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from proxy.conversation.edit import well_formed
from proxy.conversation.fingerprint import digest
from proxy.conversation.model import NO_TOOLS, Tools
from proxy.wire.body import Span, dumps, loads

_MOST_SMALL_BYTES = 4096
_MOST_COUNT = 2**53
"""What every reader of JSON takes for the same number, and the store and the log can hold."""
Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST_COUNT)] | None
"""What `count` makes of nearly everything that providers write, as a field to be converted at once with others."""
_ERROR_WORDS = ("message", "msg", "error_msg", "error_message", "error_code", "errors", "detail")
_WRAPPERS = ("data", "result", "response")
"""Where a gateway puts an answer, beside a message that all is well."""
MOST_ANSWER_BYTES = 64 * 1024 * 1024


def small_values(body: bytes, fields: Mapping[str, Span], names: Collection[str]) -> dict[str, Any]:
    """Values of the fields with these names, as far as they are short; of a body no more is parsed than is read."""
    found = {}
    for name, (start, end) in fields.items():
        if name in names and end - start <= _MOST_SMALL_BYTES:
            found[name] = loads(body[start:end])
    return found


def whole(value: object) -> int | None:
    """A positive whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def count(value: object) -> int | None:
    """A token count, 0 included; some gateways write floats."""
    if type(value) is int:
        return value if 0 <= value <= _MOST_COUNT else None
    return int(value) if isinstance(value, float) and 0 <= value <= _MOST_COUNT else None


def counts(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, int | None]:
    """What an object says under each of these names, where that is a count; None for anything else."""
    return {name: count(values.get(name)) for name in names}


def name_of(value: object) -> str:
    """A model's or a tool's name as log, store and reports can hold it; empty where there is none."""
    return well_formed(str(value or ""))


def caller_of(holder: Mapping[str, Any], id_field: str) -> str:
    """Id of the code that made this call, or that alone reads this result; empty where it is the model's."""
    caller = mapping(holder.get("caller"))
    return "" if caller.get("type") in (None, "direct") else str(caller.get(id_field) or caller["type"])


def whole_input(tokens: int | None, cached: int | None) -> int | None:
    """Reported input with the cached tokens in it: some gateways leave them out, so that more is cached than came in."""
    return tokens + cached if tokens is not None and cached is not None and cached > tokens else tokens


def mapping(value: object) -> Mapping[str, Any]:
    """The object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of an array; an empty list for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def parsed(data: bytes) -> Any:
    """The JSON value; None when it is none."""
    try:
        return loads(data)
    except (ValueError, RecursionError):
        return None


def parse_tools(raw: bytes) -> Tools:
    """The definitions of `tools` or the old `functions`: nested in `function` (chat) or flat (Responses, Anthropic).

    A provider's own tool has no name; its type stands for it.
    """
    definitions = loads(raw)
    # An empty list (Claude Code's title call) brings none of what a provider puts in front of tools.
    if not (isinstance(definitions, list) and definitions):
        return NO_TOOLS
    inner = [mapping(item.get("function", item)) for item in objects(definitions)]
    names = tuple(name_of(item.get("name") or item.get("type")) for item in inner)
    return Tools(digest=digest(definitions), text=dumps(definitions).decode(), names=names)


def has_any(answer: object, names: Collection[str]) -> bool:
    """Whether it is a JSON object with something that every answer of its format has."""
    return isinstance(answer, dict) and not answer.keys().isdisjoint(names)


def tells_error(answer: object) -> bool:
    """Whether a JSON object that is no answer of its format is an error in its server's own words, whatever the status.

    Qianfan says `{"error_code": …, "error_msg": …}` behind a 200, Spark `{"code": …, "message": …}`.
    """
    return isinstance(answer, dict) and any(map(answer.get, _ERROR_WORDS)) and not any(map(answer.get, _WRAPPERS))


def error_of(said: object) -> dict[str, Any]:
    """A provider's error as an object, also where something else stands in its place."""
    if isinstance(said, dict):
        return said
    return {"message": said if isinstance(said, str) else as_text(said)}


def as_text(error: object) -> str:
    """A provider's error as JSON; empty for none, and for one that is nested too deep to be written again."""
    try:
        return dumps(error).decode() if error else ""
    except RecursionError:
        return ""


class WholeAnswer:
    """Collects one JSON text, bounded; also with blank lines before it (DeepSeek keeps connections alive so)."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """Take bytes."""
        self._size += len(chunk)
        if self._size <= MOST_ANSWER_BYTES:
            self._pieces.append(chunk)

    def parsed(self) -> Any:
        """The JSON value; None when it is broken, cut or larger than 64 MiB."""
        return parsed(b"".join(self._pieces)) if self._size <= MOST_ANSWER_BYTES else None
