"""A conversation's edits: why, when, what stood there and what stands there now."""

from collections.abc import Mapping

import msgspec

from proxy.conversation.edit import (
    Edit,
    Insert,
    Plan,
    Replace,
    RestoreReasoning,
    StripReasoning,
    Summarise,
    kind_of,
)
from proxy.ledger.originals import Original, original_id
from proxy.ledger.records import Turn

NOT_KEPT = "not kept, or no longer: the original stands in the client's own history"
NOT_ASKED = "not in this list: it is shown one edit at a time"
_NEW = "nothing stood here"
_MISSED = "the client left it out: demanded by the provider, or wished for by reasoning.restore"
_UNWANTED = "wished for by reasoning.strip, or refused by the provider"

Originals = Mapping[bytes, Original]
"""Those that are kept, by id."""


class EditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One edit that stands in the conversation."""

    number: int
    """From 1, in the order in which they were decided."""
    kind: str
    """clear | repeat | cap | ansi | collapse | summarise | insert | strip | restore"""
    turn: int | None
    """Number of the call at which it was decided; None when that is not known."""
    tool: str
    reason: str
    at: str
    """Hex key of the message that it is anchored to: of a summary the last one covered, of an insertion the one before."""
    tokens_before: int
    """Estimated, in the provider's tokens, as the newest call knows them."""
    tokens_after: int
    saved_tokens: int
    """Negative for what it adds."""
    after: str | None
    """The text that stands there now; None where nothing does."""
    before: str | None
    """What the client has there; head and tail of it where it is long. None: see `before_note`."""
    before_cut: int
    """Characters of it that were not kept, between head and tail."""
    before_note: str
    """Why there is no text; empty where there is one."""


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken out of a conversation, and put in."""

    session: str
    turn: int
    """The newest call: its plan is shown."""
    known: bool
    """False when the store no longer has that plan."""
    observed: bool
    """True when the plan was only observed: the call went out as it came, and nothing of this stands in it."""
    removed_tokens: int
    """Estimated tokens that the newest call did not send, or would not have sent. More than the edits' sum where a summary has
    swallowed earlier ones: it counts what stood there then."""
    edits: tuple[EditRow, ...]
    """In the order in which they were decided."""


def edits(turn: Turn, plan: Plan | None, originals: Originals | None = None) -> Edits:
    """The edits of a call's plan (None: the store has lost it); `originals` None: not asked for."""
    found = plan.edits if plan is not None else ()
    return Edits(
        session=turn.session,
        turn=turn.turn,
        known=plan is not None,
        observed=bool(found) and not turn.edits,
        removed_tokens=turn.removed_tokens or turn.would_remove_tokens,
        edits=tuple(edit_row(number, edit, originals, turn.factor) for number, edit in enumerate(found, start=1)),
    )


def edit_row(number: int, edit: Edit, originals: Originals | None, factor: float) -> EditRow:
    """One edit's line. `factor`: see `Turn.factor`."""
    at, before_tokens, after_tokens, after, reason = _facts(edit)
    before_tokens, after_tokens = round(before_tokens * factor), round(after_tokens * factor)
    before, cut, note = _before(edit, originals)
    return EditRow(
        number=number,
        kind=kind_of(edit),
        turn=edit.turn or None,
        tool=edit.tool if isinstance(edit, Replace) else "",
        reason=reason,
        at=at.hex(),
        tokens_before=before_tokens,
        tokens_after=after_tokens,
        saved_tokens=before_tokens - after_tokens,
        after=after,
        before=before,
        before_cut=cut,
        before_note=note,
    )


def _facts(edit: Edit) -> tuple[bytes, int, int, str | None, str]:
    """Its message, tokens before and after, the text that stands there now, and why."""
    match edit:
        case Replace():
            return edit.at, edit.tokens_before, edit.tokens_after, edit.text, edit.reason
        case Summarise():
            return edit.last, edit.tokens_before, edit.tokens_after, edit.text, edit.reason
        case Insert():
            return edit.after, 0, edit.tokens_after, edit.text, edit.reason
        case RestoreReasoning():
            return edit.at, 0, edit.tokens_after, None, _MISSED
        case StripReasoning():
            return edit.at, edit.tokens_before, 0, None, _UNWANTED


def _before(edit: Edit, originals: Originals | None) -> tuple[str | None, int, str]:
    place = original_id(edit)
    if not place:
        return None, 0, _NEW
    if originals is None:
        return None, 0, NOT_ASKED
    original = originals.get(place)
    return (None, 0, NOT_KEPT) if original is None else (original.text, original.cut_chars, "")
