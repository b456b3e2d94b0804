"""Whose call it is: conversations of different callers never meet, even when their histories are equal."""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from hashlib import blake2b

from proxy.server.keys import CREDENTIALS, keys_in
from proxy.wire.body import loads

_DIGEST = blake2b(digest_size=16, person=b"caller")
"""Of nothing yet: to copy it takes half as long as to make another."""


def caller_of(named: Mapping[bytes, bytes], query: bytes, *, key_name: str) -> str:
    """A name for the caller that never holds a credential: the proxy key's name, else a digest of what it presented.

    `named`: the first value under each name of its headers.
    """
    if key_name:
        return "key:" + key_name
    presented = [named[name] for name in CREDENTIALS if name in named]
    if not presented and b"key=" in query:
        presented = keys_in(query)
    if not presented:
        return ""
    digest = _DIGEST.copy()
    digest.update(b"\0".join(map(_stable, presented)))
    return digest.hexdigest()


def _stable(credential: bytes) -> bytes:
    """The credential, or issuer and subject where it is a JSON web token: those rotate within one conversation."""
    parts = credential.removeprefix(b"Bearer ").split(b".")
    if len(parts) != 3 or not parts[0].startswith(b"eyJ"):
        return credential
    try:
        claims = loads(urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
        issuer, subject = claims["iss"], claims["sub"]
    except (ValueError, KeyError, TypeError):
        return credential
    return f"jwt\0{issuer}\0{subject}".encode()
