"""The options behind `?` of `store.url`."""

import contextlib
from collections.abc import Sequence
from urllib.parse import parse_qsl

from proxy.errors import SettingsError

_TIMEOUT = "timeout_s"


def options_of(query: str, allowed: Sequence[str] = ()) -> dict[str, str]:
    """The options by name: `timeout_s`, which every store has, and those of `allowed`; SettingsError names any other."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in (_TIMEOUT, *allowed):
            raise SettingsError(f"store.url: unknown option {name!r}; known here: {', '.join((_TIMEOUT, *allowed))}")
    return options


def patience_of(options: dict[str, str], default_s: float) -> float:
    """Take `timeout_s` out of the options: the longest that a call waits for the store, in seconds."""
    text = options.pop(_TIMEOUT, str(default_s))
    with contextlib.suppress(ValueError):
        if 0.01 <= float(text) <= 30:
            return float(text)
    raise SettingsError("store.url: timeout_s is a number of seconds from 0.01 to 30")
