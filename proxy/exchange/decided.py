"""What a call has decided beyond the plan that it inherits."""

import msgspec

from proxy.conversation.edit import Edit, Plan, edits_hash, storable
from proxy.conversation.lines import Notes


def plan_id(notes: Notes, plan: Plan) -> bytes:
    """`Plan.plan_id`; of a plan that has grown only what is new is hashed."""
    if not plan.edits:
        return b""
    return notes.under("hash", plan.edits, lambda known, new: (0, edits_hash(new, known))).digest()


def dated(plan: Plan, inherited: Plan, turn: int) -> Plan:
    """The plan with this call's number on what is new in it."""
    new = set(map(id, new_edits(plan, inherited)))
    if not new:
        return plan
    same = _in_common(plan, inherited)
    marked = [
        msgspec.structs.replace(storable(edit), turn=turn) if id(edit) in new else edit for edit in plan.edits[same:]
    ]
    return Plan((*plan.edits[:same], *marked))


def new_edits(plan: Plan, inherited: Plan) -> tuple[Edit, ...]:
    """Those of the plan's edits that are not inherited."""
    # Most calls decide nothing: the plan is then the very object that memory holds.
    if plan is inherited:
        return ()
    return tuple([edit for edit in plan.edits[_in_common(plan, inherited) :] if edit not in inherited.edits])


def _in_common(plan: Plan, inherited: Plan) -> int:
    """The number of edits with which both begin: all that are inherited, where none of those has been swallowed."""
    count = len(inherited.edits)
    return count if plan.edits[:count] == inherited.edits else 0
