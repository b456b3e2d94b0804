"""Fourth verb: from what was sent and what came back to the anchor and the row that the ledger keeps."""

from collections import Counter

import msgspec

from proxy.conversation.edit import Edit, Insert, Replace, Summarise, kind_of, saved_tokens, well_formed
from proxy.conversation.fingerprint import history_key
from proxy.dialects.base import Observation
from proxy.exchange.aside import aside
from proxy.exchange.money import Money, money_of
from proxy.exchange.ready import Ready
from proxy.exchange.spent import dropped_share
from proxy.exchange.tally import Tally
from proxy.ledger.records import Anchor, Item, Turn
from proxy.pricing.prices import CacheHabit, Price
from proxy.tokens.learn import Sample, is_usable
from proxy.tokens.usage import NOT_REPORTED, Usage, is_possible

_MOST_WORD = 120
_MOST_CODE = 2**53
_NEARLY_ALL = 0.9


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What the handler alone knows about a call."""

    upstream: str
    status: int
    """HTTP status of the answer; 0 when none came."""
    overhead_ms: float
    """Time of our own before the request went out, in milliseconds; `exact_ms` is none of it."""
    client_gone: bool = False
    upstream_ms: float = 0.0
    """From sending to the head of the answer, in milliseconds; 0 when none came."""
    failed_open: str = ""
    """Name of the stage of ours that failed, when the original bytes went out because of it."""
    exact: int | None = None
    """Input tokens by the provider's count endpoint, where they were decided by."""
    exact_ms: float = 0.0
    """Wait for that endpoint, in milliseconds; 0 when it was not asked."""
    price: Price | None = None
    habit: CacheHabit = CacheHabit()


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger is to keep."""

    anchor: Anchor | None
    """None when the conversation must not advance: errors, cut streams without usage."""
    turn: Turn
    sample: Sample
    """What the call teaches about estimates."""
    others: tuple[Anchor, ...] = ()
    """The same call under its other keys: the names by which the provider holds this history, for requests that send only
    those, without a plan; then the place where the next request may join earlier than this one ended, with this call's."""


def settle(ready: Ready, observation: Observation, circumstances: Circumstances) -> Settled:
    """The call's outcome. Usage that cannot be is kept out of the anchor and out of both bills; the row shows it."""
    usage, conversation = observation.usage, ready.received.conversation
    # Without what was learned of first calls: else a wrong lesson would rule out the counts that could mend it.
    expected = ready.context.total if ready.context.basis == "anchored" else ready.inputs.growth.tokens
    possible = is_possible(usage, window=ready.context.window, sent_estimate=expected)
    outcome = _outcome(observation, circumstances)
    advances = outcome in ("ok", "blocked") or (outcome in ("truncated", "client_closed") and possible)
    charged = usage if possible or not _exceeds(usage, ready.context.window) else NOT_REPORTED
    money = money_of(ready, charged, circumstances.price, circumstances.habit)
    anchor = None
    if advances and ready.received.keys:
        anchor = msgspec.structs.replace(
            ready.anchor,
            upstream=circumstances.upstream,
            usage=(observation.context or usage) if possible else None,
            replies=observation.replies,
            warm_tokens=money.warm_tokens,
            rewritten=len(conversation.messages) if possible and _has_lost(ready, usage) else ready.anchor.rewritten,
        )
    whole = (
        # A client's side call often leaves out the tools that the conversation's own calls carry. Of a history that only the
        # provider holds, nothing could be counted before its first measured call.
        not conversation.utility
        and not (conversation.server_history and ready.context.basis == "estimated")
        and is_usable(
            complete=outcome == "ok",
            possible=possible,
            server_edits=conversation.server_edits or observation.server_edited,
            media=ready.inputs.has_media,
            edited=False,
        )
    )
    sample = Sample(
        growth=ready.inputs.growth,
        actual=(usage.input_tokens or 0) - ready.known_tokens,
        anchored=ready.context.basis == "anchored",
        turns_dropped=_turns_dropped(ready, usage) if whole else None,
        usable=whole and not ready.inputs.edited and not ready.summarised,
    )
    turn = _answered(_turn(ready, circumstances), ready, observation, circumstances, outcome, money)
    others = _others(ready, anchor, observation.response_id) if anchor is not None else ()
    return Settled(anchor=anchor, turn=turn, sample=sample, others=others)


def _turns_dropped(ready: Ready, usage: Usage) -> float | None:
    """See `Sample`. New edits are off by a part of what they take out: they hide only what is small beside that."""
    spent, dropped = ready.inputs.spent, ready.drops_reasoning
    if ready.context.basis == "estimated" or abs(ready.context.corrections + spent * dropped) > spent:
        return None
    return dropped_share(ready.estimated, usage.input_tokens or 0, spent, dropped=dropped)


def _has_lost(ready: Ready, usage: Usage) -> bool:
    """Whether the cache had lost part of a history that the call before had still found, for a reason of the provider's own.

    Many drop earlier turns' reasoning when the user speaks: what stood behind it is another history to their cache.
    """
    before = ready.before.usage if ready.before is not None else None
    if before is None or ready.inputs.edited or any(isinstance(edit, Summarise) for edit in ready.new_edits):
        return False
    sent, found, read = before.input_tokens or 0, before.cache_read_tokens or 0, usage.cache_read_tokens
    return read is not None and 2 * found >= sent > 0 and read < _NEARLY_ALL * found


def _exceeds(usage: Usage, window: int | None) -> bool:
    """More than one prompt can hold: the running total of a gateway, which would be charged again and again."""
    return window is not None and usage.input_tokens is not None and usage.input_tokens > window


def _others(ready: Ready, anchor: Anchor, response_id: str) -> tuple[Anchor, ...]:
    moves = ready.received.conversation.server_moves and anchor.usage is not None
    held = _held(ready, anchor, response_id, moves=moves) if response_id or moves else ()
    earlier = aside(ready, anchor)
    return held if earlier is None else (*held, earlier)


def _held(ready: Ready, anchor: Anchor, response_id: str, *, moves: bool) -> tuple[Anchor, ...]:
    """Under the answer's own id, and under the id of a conversation, which moves on with every call.

    An answer that comes later (`background`) has an id, but no usage yet: what goes on from it is the same session.
    """
    received = ready.received
    keys = [history_key(received.seed, response_id)] if response_id else []
    if moves:
        keys.append(received.origin)
    return tuple([msgspec.structs.replace(anchor, key=key, plan_id=b"", removed_tokens=0) for key in keys])


def _outcome(observation: Observation, circumstances: Circumstances) -> str:
    # Codex leaves when it has read the last event, and does not wait for the end of the stream.
    if circumstances.client_gone and observation.outcome != "ok":
        return "client_closed"
    if circumstances.status == 0 or circumstances.status >= 400:
        return "error"
    return observation.outcome


# In steps by topic: of more than 15 names in one call Python makes a dict first, which takes longer than all of this.
def _turn(ready: Ready, circumstances: Circumstances) -> Turn:
    """The row as far as it was known when the call went out."""
    context, anchor, conversation = ready.context, ready.anchor, ready.received.conversation
    turn = Turn(
        session=anchor.session,
        turn=anchor.turn,
        at=anchor.at,
        upstream=circumstances.upstream,
        model=conversation.model,
        dialect=conversation.dialect,
        basis=context.basis,
        estimated=ready.estimated,
        label=conversation.session_label,
        purpose="utility" if conversation.utility else "main",
        plan_id=anchor.plan_id,
        learned_from=ready.learned.samples,
        removed_tokens=ready.removed_tokens,
        would_remove_tokens=ready.would_remove_tokens,
        skipped=ready.skipped,
    )
    turn = msgspec.structs.replace(
        turn,
        window=context.window,
        max_input=context.max_input,
        reserve=context.reserve,
        system_tokens=context.system,
        tools_tokens=context.tools,
        last_input=context.last_input,
        last_output=context.last_output_resent,
        new_tokens=ready.inputs.present.new,
        corrections=context.corrections,
        reasoning_tokens=context.reasoning,
        reasoning_raw=context.reasoning_raw,
        warning=context.warning,
    )
    return _with_edits(turn, ready) if ready.changed or ready.new_edits or any(ready.weighed.sizes) else turn


def _with_edits(turn: Turn, ready: Ready) -> Turn:
    """The row with what stands in the request of tool results, and of edits."""
    factor = ready.learned.factor
    by_tool, largest = _results(ready, factor)
    return msgspec.structs.replace(
        turn,
        edits=_by_kind(ready.sent_plan.edits),
        new_edits=_by_kind(ready.new_edits),
        decisions=tuple([_said(edit, factor) for edit in ready.new_edits]),
        factor=factor,
        by_tool=by_tool,
        largest=largest,
    )


def _answered(
    turn: Turn, ready: Ready, observation: Observation, circumstances: Circumstances, outcome: str, money: Money
) -> Turn:
    """The row with what came of the call."""
    usage = observation.usage
    turn = msgspec.structs.replace(
        turn,
        usage=usage if usage.input_tokens or usage.output_tokens else NOT_REPORTED,
        grown=_grown(ready, usage),
        outcome=outcome,
        status=circumstances.status,
        tool_calls=observation.tool_calls,
        dropped_reasoning=observation.dropped_reasoning,
        overhead_ms=_to_thousandths(circumstances.overhead_ms),
        upstream_ms=_to_thousandths(circumstances.upstream_ms),
        failed_open=circumstances.failed_open,
        cost=money.paid,
        cost_unpruned=money.unpruned,
    )
    if observation.error_type or observation.error_code is not None:
        kind, code = _word(observation.error_type), _code(observation.error_code)
        turn = msgspec.structs.replace(turn, error_type=kind, error_code=code)
    if circumstances.exact is not None or circumstances.exact_ms:
        exact_ms = _to_thousandths(circumstances.exact_ms)
        turn = msgspec.structs.replace(turn, exact=circumstances.exact, exact_ms=exact_ms)
    return turn


def _to_thousandths(number: float) -> float:
    """`round` by digits goes by way of a text, which takes several times as long."""
    return round(number * 1000) / 1000


def _word(said: str) -> str:
    """A provider's name for an error as a row and the log can hold it: some write a whole text there, or no text at all."""
    return well_formed(said[:_MOST_WORD])


def _code(said: object) -> int | str | None:
    """Its number, or a name in a number's place; of anything else nothing, since a row with it could not be read again."""
    if isinstance(said, str):
        return _word(said)
    if isinstance(said, int) and not isinstance(said, bool) and abs(said) <= _MOST_CODE:
        return said
    return None


def _grown(ready: Ready, usage: Usage) -> int | None:
    """Input that the provider counted beyond what was known; None where nothing was."""
    if not usage.input_tokens or ready.context.basis != "anchored":
        return None
    return usage.input_tokens - ready.known_tokens


def _by_kind(edits: tuple[Edit, ...]) -> dict[str, int]:
    return dict(Counter(map(kind_of, edits))) if edits else {}


def _said(edit: Edit, factor: float) -> str:
    """One line for people, in the provider's tokens; holds no content."""
    tool = f" {edit.tool}" if isinstance(edit, Replace) and edit.tool else ""
    reason = f": {edit.reason}" if isinstance(edit, Replace | Summarise | Insert) else ""
    return f"{kind_of(edit)}{tool} {-round(saved_tokens(edit) * factor):+d}{reason}"


def _results(ready: Ready, factor: float) -> tuple[dict[str, int], tuple[Item, ...]]:
    """The provider's tokens of the tool results in the request by tool, as they came; and the largest ones, as they go out."""
    by_tool, largest = ready.weighed.notes.carried("tally", Tally).sums(
        ready.weighed, ready.received.keys, ready.sent_plan.edits
    )
    return {tool: round(tokens * factor) for tool, tokens in by_tool.items()}, tuple(
        [
            Item(tool=tool, message=message, tokens=round(tokens * factor), edit=kind)
            for tokens, message, tool, kind in largest
        ]
    )
