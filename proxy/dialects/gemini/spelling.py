"""Gemini: both spellings of a field. Google's servers take `functionCall` and `function_call`, even in one request."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def snake(name: str) -> str:
    """`functionCall` → `function_call`."""
    return _HUMP.sub("_", name).lower()


def spelled(holder: Mapping[str, Any], name: str) -> str:
    """The spelling under which the object has this field, given in camel case; empty when it has none."""
    if name in holder:
        return name
    other = snake(name)
    return other if other in holder else ""


def either(holder: Mapping[str, Any], name: str) -> Any:
    """The field's value under whichever spelling; None when there is none."""
    spelling = spelled(holder, name)
    return holder[spelling] if spelling else None
