"""Fourth verb: from what was sent and what came back to the anchor and the row that the ledger keeps."""

from collections import Counter
from dataclasses import dataclass

import msgspec

from proxy.conversation.edit import Edit, Replace, kind_of, saved_tokens
from proxy.conversation.model import ToolResult
from proxy.conversation.pairing import pairs
from proxy.dialects.base import Observation
from proxy.exchange.money import money_of
from proxy.exchange.prepare import Ready
from proxy.ledger.records import Anchor, Turn
from proxy.pricing.prices import CacheHabit, Price
from proxy.tokens.learn import Sample, is_usable
from proxy.tokens.usage import NOT_REPORTED, Usage, is_possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the handler alone knows about a call."""

    upstream: str
    status: int
    """HTTP status of the answer; 0 when none came."""
    overhead_ms: float
    """Time of our own before the request went out, in milliseconds."""
    client_gone: bool = False
    failed_open: str = ""
    """Name of the stage of ours that failed, when the original bytes went out because of it."""
    purpose: str = "main"
    price: Price | None = None
    habit: CacheHabit = CacheHabit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the ledger is to keep."""

    anchor: Anchor | None
    """None when the conversation must not advance: errors, cut streams without usage."""
    turn: Turn
    sample: Sample
    """What the call teaches about estimates."""


def settle(ready: Ready, observation: Observation, circumstances: Circumstances) -> Settled:
    """The call's outcome. Usage that cannot be is kept out of the anchor and out of the row's error."""
    usage = observation.usage
    possible = is_possible(usage, window=ready.context.window, sent_estimate=ready.context.total)
    outcome = _outcome(observation, circumstances)
    advances = outcome in ("ok", "blocked") or (outcome in ("truncated", "client_closed") and possible)
    money = money_of(ready, usage, circumstances.price, circumstances.habit)
    anchor = None
    if advances and ready.received.keys:
        anchor = msgspec.structs.replace(
            ready.anchor,
            upstream=circumstances.upstream,
            usage=usage if possible else None,
            replies=observation.replies,
            warm_tokens=money.warm_tokens,
        )
    sample = Sample(
        growth=ready.inputs.growth,
        actual=(usage.input_tokens or 0) - ready.known_tokens,
        anchored=ready.context.basis == "anchored",
        usable=is_usable(
            complete=outcome == "ok",
            possible=possible,
            server_edits=ready.received.conversation.server_edits or observation.server_edited,
            media=ready.inputs.has_media,
            edited=ready.inputs.edited or ready.summarised,
        ),
    )
    turn = _turn(ready, observation, circumstances, outcome, usage)
    turn = msgspec.structs.replace(turn, cost=money.paid, cost_unpruned=money.unpruned)
    return Settled(anchor=anchor, turn=turn, sample=sample)


def _outcome(observation: Observation, circumstances: Circumstances) -> str:
    if circumstances.client_gone:
        return "client_closed"
    if circumstances.status == 0 or circumstances.status >= 400:
        return "error"
    return observation.outcome


def _turn(ready: Ready, observation: Observation, circumstances: Circumstances, outcome: str, usage: Usage) -> Turn:
    context, anchor = ready.context, ready.anchor
    conversation = ready.received.conversation
    actual = usage.input_tokens
    return Turn(
        session=anchor.session,
        turn=anchor.turn,
        at=anchor.at,
        upstream=circumstances.upstream,
        model=conversation.model,
        dialect=conversation.dialect,
        basis=context.basis,
        estimated=context.total,
        usage=usage if usage.input_tokens or usage.output_tokens else NOT_REPORTED,
        grown=actual - ready.known_tokens if actual and context.basis == "anchored" else None,
        removed_tokens=ready.removed_tokens,
        edits=_by_kind(ready.sent_plan.edits),
        new_edits=_by_kind(ready.new_edits),
        outcome=outcome,
        error_type=observation.error_type,
        error_code=observation.error_code,
        status=circumstances.status,
        tool_calls=observation.tool_calls,
        overhead_ms=round(circumstances.overhead_ms, 3),
        label=conversation.session_label,
        purpose="utility" if conversation.utility else circumstances.purpose,
        skipped=ready.skipped,
        failed_open=circumstances.failed_open,
        window=context.window,
        reserve=context.reserve,
        system_tokens=context.system,
        tools_tokens=context.tools,
        by_tool=_by_tool(ready),
        decisions=tuple(_said(edit) for edit in ready.new_edits),
    )


def _by_kind(edits: tuple[Edit, ...]) -> dict[str, int]:
    return dict(Counter(kind_of(edit) for edit in edits))


def _said(edit: Edit) -> str:
    """One line for people; holds no content."""
    tool = f" {edit.tool}" if isinstance(edit, Replace) and edit.tool else ""
    reason = f": {edit.reason}" if isinstance(edit, Replace) else ""
    return f"{kind_of(edit)}{tool} -{saved_tokens(edit)}{reason}"


def _by_tool(ready: Ready) -> dict[str, int]:
    """Tokens of the tool results that stand in the request, by tool, as they came (edits are listed beside)."""
    found: Counter[str] = Counter()
    for pair in pairs(ready.received.conversation.messages):
        if isinstance(pair.result, ToolResult):
            found[pair.tool or "?"] += ready.weighed.weights[pair.message].parts[pair.part]
    return dict(found)
