"""The stored form of what may hold content: anchors, plans, originals and learned values, sealed when `store.key` is set.

AES-256-GCM under a key that scrypt makes of the passphrase once. Scrypt's salt is the application's, not the store's: so
replicas with the same passphrase read each other's values. Each value has its own random nonce, and is bound to the
place at which it lies, so that it cannot be moved to another. What does not open counts as absent: sealed under another
key, changed, moved, or written without a key while there is one now (otherwise whoever can write the store could slip a
plan past the seal). Rows of calls hold numbers and names and no content; they stay readable for reports.

Random nonces of 96 bits are good for 2**32 values under one key (NIST SP 800-38D, section 8.3). A call stores two or
three, so that fifty calls a second, over all replicas, take a year to get there; change the passphrase before that.
"""

import os
from typing import TYPE_CHECKING, Any

from proxy.conversation.edit import Plan
from proxy.ledger.originals import Original
from proxy.ledger.records import Anchor
from proxy.stores.codec import pack, pack_original, pack_plan, unpack_anchor, unpack_original, unpack_plan

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MARK = b"\xc1"
"""In front of each sealed value: the one byte that msgpack never uses, and no form of a plan."""
_NONCE_BYTES = 12
_SALT = b"pruning-proxy/store/1"
# 32 MiB and about a tenth of a second, once a start: what a guess at the passphrase costs, too.
_SCRYPT: dict[str, Any] = {"length": 32, "n": 2**15, "r": 8, "p": 1}


class Sealing:
    """Values to what a store keeps and back; without a cipher they are only encoded. May be used from any thread."""

    def __init__(self, cipher: "AESGCM | None" = None) -> None:
        self._cipher = cipher

    @property
    def seals(self) -> bool:
        """Whether there is a key."""
        return self._cipher is not None

    def pack_anchor(self, anchor: Anchor) -> bytes:
        """The stored form; Unstorable as of `codec.pack`."""
        return self._seal(b"a:" + anchor.key, pack(anchor))

    def unpack_anchor(self, key: bytes, stored: bytes | None) -> Anchor | None:
        """The anchor under this prefix key; None for nothing, and when the bytes are not one."""
        packed = self._open(b"a:" + key, stored)
        return None if packed is None else unpack_anchor(packed)

    def pack_plan(self, plan_id: bytes, plan: Plan) -> bytes:
        """The stored form of the plan with this id."""
        return self._seal(b"p:" + plan_id, pack_plan(plan))

    def unpack_plan(self, plan_id: bytes, stored: bytes) -> Plan | None:
        """The plan with this id, or None when the bytes are not one."""
        packed = self._open(b"p:" + plan_id, stored)
        return None if packed is None else unpack_plan(packed)

    def pack_original(self, session: str, original: Original) -> bytes:
        """The stored form of a conversation's original."""
        return self._seal(_original(session, original.id), pack_original(original))

    def unpack_original(self, session: str, place: bytes, stored: bytes | None) -> Original | None:
        """The original of this place; None for nothing, and when the bytes are not one."""
        packed = self._open(_original(session, place), stored)
        return None if packed is None else unpack_original(packed)

    def pack_learned(self, name: str, value: bytes) -> bytes:
        """The stored form of a small learned value."""
        return self._seal(_learned(name), value)

    def unpack_learned(self, name: str, stored: bytes | None) -> bytes | None:
        """The value of this name; None for nothing, and for what does not open."""
        return self._open(_learned(name), stored)

    def _seal(self, place: bytes, value: bytes) -> bytes:
        if self._cipher is None:
            return value
        nonce = os.urandom(_NONCE_BYTES)
        return _MARK + nonce + self._cipher.encrypt(nonce, value, place)

    def _open(self, place: bytes, stored: bytes | None) -> bytes | None:
        if stored is None:
            return None
        is_sealed = stored[:1] == _MARK
        if self._cipher is None:
            return None if is_sealed else stored
        body = len(_MARK) + _NONCE_BYTES
        if not is_sealed or len(stored) <= body:
            return None
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 (with a cipher the library is there)

        try:
            return self._cipher.decrypt(stored[len(_MARK) : body], stored[body:], place)
        except InvalidTag:
            return None


PLAIN = Sealing()
"""Without a key: the values as they are encoded."""


def sealing_of(passphrase: str) -> Sealing:
    """Seals under this passphrase, `PLAIN` for an empty one. Takes a tenth of a second and 32 MiB for that time."""
    if not passphrase:
        return PLAIN
    # Imported here: an extra of the package, which only those who set a key install.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415

    return Sealing(AESGCM(Scrypt(salt=_SALT, **_SCRYPT).derive(passphrase.encode("utf-8", "surrogatepass"))))


def _original(session: str, place: bytes) -> bytes:
    return b"o:" + place + session.encode("utf-8", "surrogatepass")


def _learned(name: str) -> bytes:
    return b"l:" + name.encode("utf-8", "surrogatepass")
