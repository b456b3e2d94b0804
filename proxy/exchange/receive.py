"""First verb: from a path and a body to a recognised request, and the prefix keys under which memory is looked up."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import msgspec

from proxy.conversation.edit import EMPTY_PLAN, Plan
from proxy.conversation.fingerprint import boundaries, earlier_ends, history_key, prefix_keys, seed_key
from proxy.conversation.model import Conversation, Message, ToolResult
from proxy.conversation.recall import Recall
from proxy.dialects.base import Dialect, View
from proxy.ledger.records import Anchor


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a dialect understood."""

    dialect: Dialect
    view: View
    conversation: Conversation
    """The view's: what the request says."""
    keys: tuple[bytes, ...]
    """Prefix key behind each message of the conversation."""
    candidates: tuple[int, ...]
    """Indices of messages behind which an earlier request may have ended, deepest first; −1 for what the provider holds
    in front of them."""
    seed: bytes
    """What keys of this caller and dialect begin with."""
    origin: bytes
    """The key in front of the first message: the seed, or the provider's name for the history that it holds."""

    def lookup(self) -> list[bytes]:
        """The keys to ask the ledger for, in one read."""
        # The origin's place is −1.
        return list(map((*self.keys, self.origin).__getitem__, self.candidates))


class Memory(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the ledger knows of this request's past."""

    line: Anchor | None = None
    """The deepest anchor of any kind: session, turn number and plan are inherited from it."""
    line_at: int = -1
    """Index of the last message that this anchor's call had sent."""
    plan: Plan = EMPTY_PLAN
    """The inherited plan."""
    measured: Anchor | None = None
    """The deepest anchor with usage: the formula starts from it."""
    measured_at: int = -1
    measured_plan: Plan = EMPTY_PLAN
    """The plan that stood in the measured call's body; empty when only observed."""
    calls: tuple[tuple[int, Anchor | None], ...] = ()
    """Earlier calls, deepest first: index of the last message that each had sent, and its anchor where there is one."""

    @property
    def pressed(self) -> bool:
        """Whether the window pressed at the line's last call."""
        return self.line is not None and self.line.pressed

    @cached_property
    def answered(self) -> tuple[tuple[int, Anchor], ...]:
        """Those of the calls whose answers' reasoning is kept; most models never miss it."""
        return tuple(
            {
                at: anchor
                for at, anchor in self.calls
                if anchor is not None and at >= 0
                for reply in anchor.replies
                if reply.reasoning
            }.items()
        )


NO_MEMORY = Memory()


def receive(
    dialect: Dialect, path: str, headers: Mapping[str, str], body: bytes, *, caller: str, recall: Recall
) -> Received | None:
    """The request as a conversation; None when it is not one of this dialect, so that it passes through unread.

    `headers` has lower-case names; `caller` says whose memory is used (see conversation.fingerprint.seed_key).
    """
    view = dialect.view(path, headers, body, recall)
    if view is None:
        return None
    conversation, notes = view.conversation, view.notes
    messages = conversation.messages
    origin = seed = seed_key(dialect.name, caller)
    candidates = boundaries(notes.extended("ends", partial(earlier_ends, messages)))
    if conversation.server_history:
        origin = history_key(seed, conversation.server_history)
        # What moves on with every call goes on from its last one, also when the same words come again ("go on").
        candidates = [-1] if conversation.server_moves else [*candidates, -1]
    return Received(
        dialect=dialect,
        view=view,
        conversation=conversation,
        keys=notes.extended(("keys", origin), partial(prefix_keys, origin, messages)),
        candidates=tuple(candidates),
        seed=seed,
        origin=origin,
    )


def deepest(received: Received, anchors: Sequence[Anchor | None]) -> tuple[int, int]:
    """Positions in `candidates` of the deepest anchor of any kind, and of the deepest with usage; -1 for none.

    An anchor counts only for the model that answered it: another model has other token counts (the plan still holds).
    """
    model = received.conversation.model
    line = measured = -1
    for position, anchor in enumerate(anchors):
        if anchor is None:
            continue
        if line < 0:
            line = position
        if anchor.usage is not None and anchor.model == model:
            measured = position
            break
    return line, measured


def memory_of(
    received: Received, anchors: Sequence[Anchor | None], line: int, measured: int, plans: Mapping[bytes, Plan]
) -> Memory:
    """Memory from the anchors that were read and the plans they name; a plan that was lost counts as empty."""
    line_anchor = anchors[line] if line >= 0 else None
    measured_anchor = anchors[measured] if measured >= 0 else None
    return Memory(
        line=line_anchor,
        line_at=received.candidates[line] if line >= 0 else -1,
        plan=plans.get(line_anchor.plan_id, EMPTY_PLAN) if line_anchor else EMPTY_PLAN,
        measured=measured_anchor,
        measured_at=received.candidates[measured] if measured >= 0 else -1,
        measured_plan=(
            plans.get(measured_anchor.plan_id, EMPTY_PLAN) if measured_anchor and measured_anchor.sent else EMPTY_PLAN
        ),
        calls=tuple(zip(received.candidates, anchors, strict=False)),
    )


def joins_at(received: Received, memory: Memory) -> int:
    """Index of the last message that the next request will surely still have; -1 where that is the whole request."""
    messages = received.conversation.messages
    at = last = len(messages) - 1
    while at > 0 and messages[at].role not in ("assistant", "tool") and messages[at - 1].role != "assistant":
        at -= 1
    if at < last:
        return at
    # Examples in front of a question were never sent either: other questions behind them are other conversations.
    if comes_back_changed(received, memory) and (memory.line is not None or _goes_on(messages[last])):
        return received.candidates[1]
    return -1


def _goes_on(message: Message) -> bool:
    """Whether it belongs to the answer in front of it: as results of its calls, or as the beginning of the answer itself."""
    return message.role == "assistant" or any(isinstance(part, ToolResult) for part in message.parts)


def comes_back_changed(received: Received, memory: Memory) -> bool:
    """Whether the request before this one, whose end is plain to see, was not sent as it stands here now.

    Of a conversation that was never seen nobody can tell: it may have begun elsewhere.
    """
    candidates = received.candidates
    return len(candidates) > 1 and memory.line_at < candidates[1]
