"""Signed reasoning that is bound to everything before it: what may change in front of it, and at what price."""

from collections.abc import Mapping

from proxy.conversation.edit import Edit, Plan, Replace, StripReasoning, Summarise, edits_of
from proxy.conversation.fingerprint import index_of
from proxy.conversation.recall import Recall
from proxy.dialects.base import DropOption
from proxy.exchange.policy import Policy
from proxy.exchange.receive import Received
from proxy.exchange.weigh import Weighed
from proxy.pruning.gate import bound_until, gate
from proxy.pruning.reasoning import bare
from proxy.wire.body import splice

Header = tuple[bytes, bytes]


def bound_by(received: Received, policy: Policy) -> int | None:
    """Before which message nothing may change, where a lesson or a setting says so; None leaves it to the gate."""
    conversation, wish = received.conversation, policy.reasoning
    if wish.drop_bound and received.dialect.drop_option(received.view) is not None:
        is_dropped = gate(conversation.model, conversation.messages, 0) == "needs_drop_option"
        return 0 if is_dropped else None
    return bound_until(conversation.model, conversation.messages, binds=True) if wish.rule.binds else None


def breaks_bound(received: Received, index: Mapping[bytes, int], plan: Plan, policy: Policy) -> bool:
    """Whether signed reasoning stands behind a late edit, at a provider that refuses it unless asked to drop it.

    True also for what was signed after the edit, and is valid: which of them is which, only the provider knows.
    """
    clears = policy.reasoning.drop_bound
    late = [at for edit in plan.edits if (at := _late(edit, index, clears=clears)) is not None]
    if not late:
        return False
    conversation = received.conversation
    gone = {index[edit.at] for edit in edits_of(plan.edits, StripReasoning) if edit.at in index}
    left = [bare(message) if number in gone else message for number, message in enumerate(conversation.messages)]
    verdict = gate(conversation.model, left, min(late) + 1, binds=policy.reasoning.rule.binds)
    return verdict == "needs_drop_option"


def drop_option(received: Received, weighed: Weighed, plan: Plan, policy: Policy) -> DropOption | None:
    """What must go out with this plan so that the provider drops invalid reasoning; None where nothing must or can."""
    # Most dialects have none, whatever the edits are.
    option = received.dialect.drop_option(received.view)
    return option if option is not None and breaks_bound(received, weighed.index, plan, policy) else None


def dropping(
    received: Received, plan: Plan, policy: Policy, body: bytes, recall: Recall
) -> tuple[bytes, Header | None]:
    """A body that was made from this request, with the option in it where its prefix breaks, and the header it needs."""
    index = index_of(received.keys)
    dialect = received.dialect
    if not breaks_bound(received, index, plan, policy):
        return body, None
    view = dialect.view("", {}, body, recall)
    option = dialect.drop_option(view) if view is not None else None
    if option is None:
        return body, None
    return splice(body, [((cut.start, cut.end), cut.text) for cut in option.splices]), option.header


def _late(edit: Edit, index: Mapping[bytes, int], *, clears: bool) -> int | None:
    """The last message that an edit of something old changes; None for all other edits.

    `clears`: placeholders may have come in front of signed reasoning; else they come only where none stands behind.
    """
    match edit:
        case Replace():
            return index.get(edit.at) if clears and edit.kind == "clear" else None
        case Summarise() if edit.first in index and edit.last in index:
            return index[edit.last]
        case _:
            return None
