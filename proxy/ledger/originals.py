"""What edits replaced, kept for people to look at: bounded, expiring, never read by a decision.

The client has the whole history anyway; this is for whoever asks what an edit took out. A text beyond the bound keeps its
head and its tail and says so between them, and a conversation keeps the newest of its originals.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from proxy.conversation.edit import Edit, Insert, Replace, RestoreReasoning, StripReasoning, Summarise

MOST_BYTES: Final = 32 * 1024
"""Of one original, as UTF-8."""
MOST_SESSION_BYTES: Final = 2 * 1024 * 1024
"""Of one conversation's originals in a store; what was kept first goes first."""
_HEAD_SHARE: Final = 2 / 3


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The text that stood where an edit stands."""

    id: bytes
    """Of the place (see `original_id`)."""
    text: str
    """Head and tail of it where `cut_chars` is not 0."""
    cut_chars: int = 0
    """Characters left out in the middle."""


def original_id(edit: Edit) -> bytes:
    """16 bytes that name the place of an edit, a digest of the history up to there; empty where nothing stood before.

    Several edits of one result have the same original: what the client sent.
    """
    match edit:
        case Replace():
            return _digest(edit.at, b"%d" % edit.part)
        case Summarise():
            return _digest(edit.first, edit.last)
        case StripReasoning():
            return _digest(edit.at, b"reasoning")
        case Insert() | RestoreReasoning():
            return b""


def _digest(one: bytes, other: bytes) -> bytes:
    return blake2b(one + b"/" + other, digest_size=16, person=b"original").digest()


def an_original(place: bytes, text: str, most_bytes: int = MOST_BYTES) -> Original:
    """The text, cut where its UTF-8 is longer than `most_bytes`; what UTF-8 cannot hold becomes a question mark."""
    whole = text.encode("utf-8", "replace")
    if len(whole) <= most_bytes:
        return Original(id=place, text=whole.decode())
    head_bytes = int(most_bytes * _HEAD_SHARE)
    head = whole[:head_bytes].decode("utf-8", "ignore")
    tail = whole[len(whole) - (most_bytes - head_bytes) :].decode("utf-8", "ignore")
    cut = len(text) - len(head) - len(tail)
    return Original(id=place, text=f"{head}\n… {cut:,} characters not kept …\n{tail}", cut_chars=cut)
