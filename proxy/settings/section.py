"""What a part of the settings is made of, and how its secrets stay out of sight."""

import re
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from proxy.settings.detours import AUTO

Secret = Annotated[str, Meta(extra={"secret": True})]
"""A text that is never shown; the loader also takes `env:VAR` for it."""

SecretUrl = Annotated[str, Meta(extra={"secret": True, "url": True})]
"""A URL of which only the credentials are secret."""

MASK = "****"

_NAMED_KEY = re.compile(r"([A-Za-z0-9_.-]+)=(.*[^=].*)", re.DOTALL)
_URL_PASSWORD = re.compile(r"(?<=://)[^@/]*@|(?<=password=)[^&]*")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the settings; its text form masks what is secret, so that it can stand in a log or an error."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in masked(self).items())
        return f"{type(self).__name__}({shown})"


def is_secret(kind: Any) -> bool:
    """Whether a field of this type is a secret or a list of secrets."""
    return bool(kind in (Secret, SecretUrl, tuple[Secret, ...]))


def masked(section: Section) -> dict[str, Any]:
    """A section's fields, with secrets masked."""
    return {field.name: shown(field.type, getattr(section, field.name)) for field in msgspec.structs.fields(section)}


def shown(kind: Any, value: Any) -> Any:
    """A value of that type as it may be shown: empty secrets stay empty, of a URL only the credentials go."""
    if not is_secret(kind) or not value:
        return value
    if kind == SecretUrl and isinstance(value, str):
        if value == AUTO:
            return value
        return _URL_PASSWORD.sub(_mask_credentials, value) if "://" in value else MASK
    if isinstance(value, list | tuple):
        return type(value)(f"{named_key(item)[0]}={MASK}" for item in map(str, value))
    return MASK


def _mask_credentials(match: re.Match[str]) -> str:
    return f"{MASK}@" if match[0].endswith("@") else MASK


def named_key(entry: str) -> tuple[str, str]:
    """Name and key of an entry of `server.require_keys`, `NAME=KEY` or `KEY` alone.

    A key without a name is known by eight digits of its digest, which stay the same when the list is reordered.
    An equals sign at the very end is base64 padding, not the end of a name.
    """
    match = _NAMED_KEY.fullmatch(entry)
    if match:
        return match[1], match[2]
    return "key-" + blake2b(entry.encode(), digest_size=4).hexdigest(), entry
