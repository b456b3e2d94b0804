"""The plan: an immutable list of edits, each anchored to a prefix key and carrying the very text it puts in.

Because an edit holds its text, replaying a plan gives the same bytes for ever, also after an upgrade of this program.
An edit applies to a request exactly when the request has a message with the edit's prefix key, so a fork keeps the
edits of the part it shares and loses the others. Structs, since plans are stored.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, TypeVar, cast

import msgspec

ResultEdit = Literal["clear", "repeat", "cap", "ansi", "collapse"]


class Replace(msgspec.Struct, frozen=True, kw_only=True, tag="replace", gc=False):
    """The content of one tool result becomes `text`; its id, name, order, error mark and cache mark stay."""

    at: bytes
    """Prefix key of the message that holds the result."""
    part: int
    """Index of the result among that message's parts."""
    kind: ResultEdit
    text: str
    reason: str
    """For people: why, in a few words; no content."""
    tool: str
    tokens_before: int
    tokens_after: int
    of: bytes = b""
    """Of a `repeat`: prefix key of the message that holds the text referred to ..."""
    of_part: int = 0
    """... and the index of that result among its parts."""
    decided: int = 0
    """Number of messages in the request at which this was decided; tells later calls what it has cost and saved."""
    turn: int = 0
    """Number of the call at which it was decided, as of every edit here; 0: not known."""


class Summarise(msgspec.Struct, frozen=True, kw_only=True, tag="summarise", gc=False):
    """The messages from `first` to `last` (both included) become one user message with `text`."""

    first: bytes
    last: bytes
    text: str
    reason: str
    tokens_before: int
    tokens_after: int
    by_model: bool
    """False for the deterministic summary."""
    decided: int = 0
    """Number of messages in the request at which this was decided; 0: not known."""
    turn: int = 0


class Insert(msgspec.Struct, frozen=True, kw_only=True, tag="insert", gc=False):
    """A queued user message goes in behind the message with this key."""

    after: bytes
    text: str
    tokens_after: int
    ids: tuple[str, ...] = ()
    """Of the queued messages that it says."""
    turn: int = 0

    @property
    def reason(self) -> str:
        """Why it stands there, for people."""
        return "a queued user message"


class StripReasoning(msgspec.Struct, frozen=True, kw_only=True, tag="strip", gc=False):
    """All reasoning of the message goes."""

    at: bytes
    tokens_before: int
    turn: int = 0


class RestoreReasoning(msgspec.Struct, frozen=True, kw_only=True, tag="restore", gc=False):
    """Reasoning that the client lost comes back in front of the message's parts, in the dialect's own JSON."""

    at: bytes
    payload: str
    tokens_after: int
    turn: int = 0


Edit = Replace | Summarise | Insert | StripReasoning | RestoreReasoning

E = TypeVar("E", Replace, Summarise, Insert, StripReasoning, RestoreReasoning)
AnyEdit = TypeVar("AnyEdit", bound=Edit)

EditKind = Literal["clear", "repeat", "cap", "ansi", "collapse", "summarise", "insert", "strip", "restore"]


class Plan(msgspec.Struct, frozen=True, gc=False):
    """All edits of one line of a conversation, in the order in which they were decided."""

    edits: tuple[Edit, ...] = ()

    def with_edits(self, new: tuple[Edit, ...]) -> "Plan":
        """This plan and the new edits behind it."""
        return Plan((*self.edits, *new)) if new else self

    def encoded(self) -> bytes:
        """The stored form."""
        return msgspec.msgpack.encode(self)

    def plan_id(self) -> bytes:
        """16 bytes over the content; empty for the empty plan."""
        return edits_hash(self.edits).digest() if self.edits else b""


EMPTY_PLAN = Plan()


def edits_hash(edits: Sequence[Edit], before: "blake2b | None" = None) -> "blake2b":
    """Over these edits, behind those of `before`: what plans are told apart by, and what a longer one's goes on from."""
    found = blake2b(digest_size=16) if before is None else before.copy()
    for edit in edits:
        found.update(msgspec.msgpack.encode(edit))
    return found


def decode_plan(stored: bytes) -> Plan:
    """The plan that `encoded` wrote; raises msgspec.DecodeError on anything else."""
    return msgspec.msgpack.decode(stored, type=Plan)


def well_formed(text: str) -> str:
    """The text with question marks for halves of surrogate pairs: tools that cut by UTF-16 units leave them.

    They are legal in JSON, but nothing that wants UTF-8 takes them.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def storable(edit: AnyEdit) -> AnyEdit:
    """The edit with well-formed texts: others cannot be stored."""
    texts = {name: getattr(edit, name) for name in ("text", "tool") if name in edit.__struct_fields__}
    whole = {name: well_formed(text) for name, text in texts.items()}
    return edit if whole == texts else msgspec.structs.replace(edit, **whole)


def edits_of(edits: Sequence[Edit], kind: type[E]) -> list[E]:
    """The edits of one type. No `isinstance`: its "no" takes eight times as long, and most of a plan is of another type."""
    if not edits:
        return []
    # Mostly there is none of them, or nothing else.
    kinds = set(map(type, edits))
    if kind not in kinds:
        return []
    return [edit for edit in edits if type(edit) is kind] if len(kinds) > 1 else cast("list[E]", list(edits))


def first_of(edit: Edit) -> bytes:
    """Prefix key of the first message that an edit changes, or that it goes in behind."""
    match edit:
        case Summarise():
            return edit.first
        case Insert():
            return edit.after
        case _:
            return edit.at


def kind_of(edit: Edit) -> EditKind:
    """The name under which an edit is counted and logged."""
    match edit:
        case Replace():
            return edit.kind
        case Summarise():
            return "summarise"
        case Insert():
            return "insert"
        case StripReasoning():
            return "strip"
        case RestoreReasoning():
            return "restore"


def saved_tokens(edit: Edit) -> int:
    """Estimated tokens that the edit takes out of the request; negative for what it adds."""
    match edit:
        case Replace() | Summarise():
            return edit.tokens_before - edit.tokens_after
        case Insert() | RestoreReasoning():
            return -edit.tokens_after
        case StripReasoning():
            return edit.tokens_before
