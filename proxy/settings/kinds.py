"""From what was written to what a setting's type wants, and what to say when that fails."""

import json
import math
import tomllib
from typing import Any

import msgspec
from msgspec import inspect


class WrongValue(ValueError):
    """The value does not fit; the text says what would."""


def convert(kind: Any, value: Any, *, is_text: bool) -> Any:
    """The value as the setting's type; raises WrongValue.

    `is_text`: it comes from the environment or the command line, where everything is text: `true`, `0.5`, and lists
    either as `a,b` or as `["a", "b"]`.
    """
    if is_text and isinstance(value, str) and isinstance(inspect.type_info(kind), inspect.VarTupleType):
        value = _read_list(value)
    try:
        converted = msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        raise WrongValue(expectation(kind)) from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise WrongValue(expectation(kind))
    return converted


def _read_list(text: str) -> list[Any] | str:
    if not text.lstrip().startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    try:
        items: list[Any] = tomllib.loads(f"items = {text}")["items"]
    except tomllib.TOMLDecodeError:
        return text
    return items


def expectation(kind: Any) -> str:
    """What may be written for a setting of this type: `a whole number of at least 1, or "learned"`."""
    return _said(inspect.type_info(kind))


def _said(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(type=inner):
            return _said(inner)
        case inspect.UnionType(types=types):
            return ", or ".join(_said(one) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.LiteralType(values=values):
            listed = ", ".join(sorted(json.dumps(value) for value in values))
            return listed if len(values) == 1 else f"one of {listed}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _range(kind)
        case inspect.FloatType():
            return "a number" + _range(kind)
        case inspect.VarTupleType():
            return 'a list of texts, like ["a", "b"]'
        case _:
            return "a text in quotes"


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" over {kind.gt}"
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    return f" of at least {kind.ge}" if kind.ge is not None else ""
