r"""JSON bodies as bytes: where things stand in them, and how to put new bytes in place without touching the rest.

Finding spans is exact, not a search: msgspec hands back each value as a raw slice in document order, so walking over
keys, colons and the known lengths of the values gives every offset. Bodies that msgspec refuses though they are legal
(lone surrogates) are walked by a token scan of our own. Bodies with duplicate keys have no single meaning: no spans.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any

import msgspec
import orjson

Span = tuple[int, int]

_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_KEY_COLON = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_COMMA = re.compile(rb"[ \t\r\n]*,")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^\s\[\]{}",:]+', re.DOTALL)


class NotPlain(ValueError):
    """The bytes are not one JSON value of the kind asked for, or have no single meaning."""


def loads(raw: bytes) -> Any:
    """Parse JSON, also with lone surrogates, huge integers and NaN; raises ValueError (RecursionError when too deep)."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw)


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8; lone surrogates are escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def object_spans(raw: bytes, start: int = 0, end: int | None = None) -> dict[str, Span]:
    """Key → span of its value, for the JSON object at raw[start:end]; raises NotPlain."""
    end = len(raw) if end is None else end
    try:
        values = _RAW_OBJECT.decode(_between(raw, start, end))
    except (msgspec.DecodeError, RecursionError):
        return _searched_keys(raw, start, end, _scanned_keys(raw, start, end))
    # Quotes, colon and comma for each key, as most programs write it. Whatever else may stand there takes more bytes: white
    # space, a key's escapes and characters outside ASCII, keys that stand twice. So nothing does if all is used up.
    spans: dict[str, Span] = {}
    position = start
    for key, value in values.items():
        at = position + len(key) + 4
        position = at + len(value)
        spans[key] = (at, position)
    return spans if raw[position:end].rstrip() == b"}" else _searched_keys(raw, start, end, values)


def _searched_keys(raw: bytes, start: int, end: int, values: Mapping[str, Sized | None]) -> dict[str, Span]:
    """The spans of an object that is not written as densely as it can be; None for values whose length is not known."""
    position = _expect(raw, start, b"{")
    spans: dict[str, Span] = {}
    for key, value in values.items():
        at = _behind_key(raw, _comma(raw, position) if spans else position, end, key)
        position = at + len(value) if value is not None else _value_end(raw, at, end)
        spans[key] = (at, position)
    _expect(raw, position, b"}")
    return spans


def _behind_key(raw: bytes, position: int, end: int, key: str) -> int:
    """Where the value of this key begins, however key and colon are written."""
    match = _KEY_COLON.match(raw, position, end)
    if match is None or _text(match[1]) != key:
        raise NotPlain("duplicate keys")
    return match.end()


def array_spans(raw: bytes, start: int = 0, end: int | None = None) -> list[Span]:
    """Span of each element of the JSON array at raw[start:end]; raises NotPlain."""
    end = len(raw) if end is None else end
    try:
        values = _RAW_ARRAY.decode(_between(raw, start, end))
    except (msgspec.DecodeError, RecursionError):
        return _searched_elements(raw, start, end, _scanned_elements(raw, start, end))
    # Without white space, as in an object.
    spans: list[Span] = []
    position = start
    for value in values:
        at = position + 1
        position = at + len(value)
        spans.append((at, position))
    return spans if raw[position:end] == b"]" else _searched_elements(raw, start, end, values)


def _searched_elements(raw: bytes, start: int, end: int, values: Sequence[Sized | None]) -> list[Span]:
    """The same of an array; None for elements whose length is not known."""
    position = _expect(raw, start, b"[")
    spans: list[Span] = []
    for value in values:
        at = _skip_space(raw, _comma(raw, position) if spans else position)
        position = at + len(value) if value is not None else _value_end(raw, at, end)
        spans.append((at, position))
    _expect(raw, position, b"]")
    return spans


def _between(raw: bytes, start: int, end: int) -> bytes | memoryview:
    """Without a copy."""
    return raw if start == 0 and end == len(raw) else memoryview(raw)[start:end]


def without_keys(raw: bytes, names: Iterable[str]) -> bytes:
    """The JSON object at `raw` without these keys, every other byte as it was."""
    spans = object_spans(raw)
    doomed = set(names)
    at = _expect(raw, 0, b"{")
    return _without(raw, at, list(spans.values()), {number for number, name in enumerate(spans) if name in doomed})


def without_elements(raw: bytes, start: int, spans: Sequence[Span], doomed: AbstractSet[int]) -> bytes:
    """`raw` without these elements of its array at `start`, whose element spans are given; every other byte stays."""
    return _without(raw, _expect(raw, start, b"["), spans, doomed)


def _without(raw: bytes, inside: int, values: Sequence[Span], doomed: AbstractSet[int]) -> bytes:
    """Members go with the comma before them; the leading ones go with the comma behind them."""
    changes: list[tuple[Span, bytes]] = []
    kept_before = False
    for number, (_, end) in enumerate(values):
        if number not in doomed:
            kept_before = True
        elif kept_before:
            changes.append(((values[number - 1][1], end), b""))
        else:
            is_last = number + 1 == len(values)
            behind = end if is_last else _comma(raw, end)
            changes.append(((inside, behind), b""))
            inside = behind
    return splice(raw, changes)


def with_keys(raw: bytes, values: Mapping[str, bytes]) -> bytes:
    """The JSON object at `raw` with these keys set to JSON texts: in place where they stand, else at the end."""
    spans = object_spans(raw)
    changes = [(spans[name], text) for name, text in values.items() if name in spans]
    fresh = [json.dumps(name).encode() + b":" + text for name, text in values.items() if name not in spans]
    if fresh:
        end = raw.rindex(b"}")
        changes.append(((end, end), (b"," if spans else b"") + b",".join(fresh)))
    return splice(raw, changes)


def splice(body: bytes, changes: Iterable[tuple[Span, bytes]]) -> bytes:
    """The body with each span replaced; spans must not overlap. Everything else keeps its bytes."""
    # Views, so that what stays is copied once.
    whole = memoryview(body)
    pieces: list[bytes | memoryview] = []
    position = 0
    for (start, end), text in sorted(changes, key=itemgetter(0)):
        if start < position:
            raise ValueError("splices overlap")
        pieces += (whole[position:start], text)
        position = end
    pieces.append(whole[position:])
    return b"".join(pieces)


def _skip_space(raw: bytes, position: int) -> int:
    if raw[position : position + 1] > b" ":
        return position
    match = _SPACE.match(raw, position)
    return match.end() if match else position


def _expect(raw: bytes, position: int, mark: bytes) -> int:
    if raw[position : position + 1] == mark:
        return position + 1
    position = _skip_space(raw, position)
    if raw[position : position + 1] != mark:
        raise NotPlain(f"expected {mark.decode()!r}")
    return position + 1


def _comma(raw: bytes, position: int) -> int:
    if raw[position : position + 1] == b",":
        return position + 1
    match = _COMMA.match(raw, position)
    if match is None:
        raise NotPlain("expected ','")
    return match.end()


def _text(quoted: bytes) -> str:
    try:
        return str(loads(quoted))
    except ValueError as error:
        raise NotPlain("broken key") from error


def _value_end(raw: bytes, start: int, end: int) -> int:
    """End of the JSON value at `start`, by counting brackets outside strings."""
    depth = 0
    for match in _TOKEN.finditer(raw, start, end):
        first = raw[match.start()]
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
        if depth <= 0:
            return match.end()
    raise NotPlain("value without an end")


def _checked(raw: bytes, start: int, end: int) -> Any:
    try:
        return json.loads(raw[start:end])
    except (ValueError, RecursionError) as error:
        raise NotPlain("not JSON") from error


def _scanned_keys(raw: bytes, start: int, end: int) -> dict[str, None]:
    value = _checked(raw, start, end)
    if not isinstance(value, dict):
        raise NotPlain("expected an object")
    return dict.fromkeys(value)


def _scanned_elements(raw: bytes, start: int, end: int) -> list[None]:
    value = _checked(raw, start, end)
    if not isinstance(value, list):
        raise NotPlain("expected an array")
    return [None] * len(value)
