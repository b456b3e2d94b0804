"""What a policy would have done with a conversation that is already over: the same decisions, a simulated cache.

Every call of the past sent the messages before one of the answers. So a finished conversation can be played again, call
by call, through the very functions that decide in earnest. Input only: what the model writes is taken as it was. The
cache is taken as warm and holds the previous requests. Early compaction, which needs no model, is rehearsed; what a
full window demands is not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import EMPTY_PLAN, Edit, Replace, Summarise
from proxy.conversation.fingerprint import index_of, prefix_keys, seed_key
from proxy.conversation.model import Conversation, Message, Text, after_last_assistant
from proxy.exchange.early import absorbed, early_record
from proxy.pruning.entries import Entries
from proxy.pruning.horizon import expected_turns
from proxy.pruning.lasting import Lasting
from proxy.pruning.plan import arrive, prune
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.purse import charged
from proxy.pruning.situation import Prices, Situation
from proxy.pruning.standing import behind_marked
from proxy.pruning.strategies.passages import Passages
from proxy.tokens.estimate import Scale

NO_CACHE = Prices(read=1.0, write=1.0)
NEVER = CompactPolicy(trigger="off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A finished conversation on the scale."""

    model: str
    tools: tuple[str, ...]
    system_text: str
    head_tokens: int
    """System text and tool definitions."""
    messages: tuple[Message, ...]
    keys: tuple[bytes, ...]
    parts_tokens: tuple[tuple[int, ...], ...]
    """Of each message, by part."""
    message_tokens: tuple[int, ...]

    @property
    def ends(self) -> list[int]:
        """For each call the number of messages that it sent."""
        ends = [
            index
            for index in range(1, len(self.messages))
            if self.messages[index].role == "assistant" and self.messages[index - 1].role != "assistant"
        ]
        if self.messages and self.messages[-1].role != "assistant":
            ends.append(len(self.messages))
        return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call, in estimated input tokens."""

    start: int
    """Messages that the call before had sent."""
    end: int
    """Messages that this call sends."""
    edits: tuple[Replace | Summarise, ...]
    """Decided at this call."""
    skipped: str
    sent: int
    cached: int
    """Of `sent`: what the cache holds."""
    direct: int
    """What the client's own request has ..."""
    direct_cached: int
    """... and what of it the cache would hold."""
    kept: int
    """Messages in front of the first change."""

    @property
    def broke(self) -> bool:
        """Whether something that was cached had to be written anew."""
        return self.kept < self.start

    def cost(self, prices: Prices | None) -> float:
        """Of the call as it was sent, in plain input tokens."""
        return _charged(self.cached, self.sent, prices)

    def direct_cost(self, prices: Prices | None) -> float:
        """Of the client's own request."""
        return _charged(self.direct_cached, self.direct, prices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A whole conversation under one policy."""

    calls: int
    sent: int
    """Estimated input tokens of all calls ..."""
    direct: int
    """... and of the client's own requests."""
    cost: float
    """In plain input tokens, cache breaks included ..."""
    direct_cost: float
    """... and of the client's own requests."""
    breaks: int
    """Calls at which something that was cached had to be written anew."""


def totals(steps: Iterable[Step], prices: Prices | None) -> Totals:
    """What the steps add up to."""
    played = list(steps)
    return Totals(
        calls=len(played),
        sent=sum(step.sent for step in played),
        direct=sum(step.direct for step in played),
        cost=sum(step.cost(prices) for step in played),
        direct_cost=sum(step.direct_cost(prices) for step in played),
        breaks=sum(step.broke for step in played),
    )


def script_of(conversation: Conversation, scale: Scale) -> Script:
    """Weigh a conversation that is over."""
    weights = [scale.weigh(message) for message in conversation.messages]
    return Script(
        model=conversation.model,
        tools=conversation.tools.names,
        system_text="\n".join(
            part.text for message in conversation.system for part in message.parts if isinstance(part, Text)
        ),
        head_tokens=scale.weigh_messages(conversation.system) + scale.weigh_tools(conversation.tools),
        messages=conversation.messages,
        keys=tuple(prefix_keys(seed_key(conversation.dialect, "rehearsal"), conversation.messages)),
        parts_tokens=tuple(weight.parts for weight in weights),
        message_tokens=tuple(weight.total for weight in weights),
    )


def rehearse(
    script: Script,
    arriving: ArrivePolicy,
    pruning: PrunePolicy,
    *,
    prices: Prices | None,
    window: int | None,
    reserve: int,
    count: Callable[[str], int],
    breakpoints: bool = False,
    compacting: CompactPolicy = NEVER,
) -> Iterator[Step]:
    """Play the conversation, call by call.

    `breakpoints`: the cache finds entries only where earlier calls had ended (pruning.entries), not any place in between.
    """
    line = _Line(script, prices, window, reserve, count)
    before = 0
    entries = Entries(script.messages)
    for turn, end in enumerate(script.ends, start=1):
        arrived = line.apply(arrive(line.situation(end, turn), arriving))
        record = early_record(line.situation(end, turn), compacting, pruning.protected_tools)
        recorded = (line.absorb(record),) if record is not None else ()
        decision = prune(line.situation(end, turn), pruning)
        line.pressed = decision.pressed
        edits = (*arrived, *recorded, *line.apply(decision.edits))
        kept = min([before, *map(line.first_of, edits)])
        if breakpoints and kept < before:
            at, kept = kept, entries.found(kept, end)
            entries.changed(at)
        yield Step(
            start=before,
            end=end,
            edits=edits,
            skipped=decision.skipped,
            sent=script.head_tokens + sum(line.tokens[:end]),
            cached=script.head_tokens + sum(line.tokens[:kept]) if before else 0,
            direct=script.head_tokens + sum(script.message_tokens[:end]),
            direct_cached=script.head_tokens + sum(script.message_tokens[:before]) if before else 0,
            kept=kept,
        )
        before = end
        entries.ended(end)


class _Line:
    """The conversation as it has gone out so far."""

    def __init__(
        self,
        script: Script,
        prices: Prices | None,
        window: int | None,
        reserve: int,
        count: Callable[[str], int],
    ) -> None:
        self.script = script
        self.tokens = list(script.message_tokens)
        self.place = index_of(script.keys)
        self.plan = EMPTY_PLAN
        self.pressed = False
        self._passages, self._lasting, self._behind_marked = Passages(), Lasting(), behind_marked(script.messages)
        self._prices, self._window, self._reserve, self._count = prices, window, reserve, count

    def situation(self, end: int, turn: int) -> Situation:
        messages, tokens = self.script.messages[:end], self.tokens[:end]
        return Situation(
            messages=messages,
            keys=self.script.keys[:end],
            seen=after_last_assistant(messages),
            count=self._count,
            parts_tokens=self.script.parts_tokens.__getitem__,
            message_tokens=tokens,
            total=self.script.head_tokens + sum(tokens),
            plan=self.plan,
            window=self._window,
            reserve=self._reserve,
            prices=self._prices,
            pressed=self.pressed,
            expected_turns=expected_turns((), turn),
            model=self.script.model,
            tools=self.script.tools,
            behind_marked=self._behind_marked[end - 1] if end else 0,
            passages=self._passages,
            lasting=self._lasting,
        )

    def first_of(self, edit: Replace | Summarise) -> int:
        """Index of the first message that the edit changes."""
        return self.place[edit.at if isinstance(edit, Replace) else edit.first]

    def absorb(self, record: Summarise) -> Summarise:
        first, last = self.place[record.first], self.place[record.last]
        self.tokens[first : last + 1] = [record.tokens_after, *[0] * (last - first)]
        self.plan = absorbed(self.plan, record, self.place)
        return record

    def apply(self, edits: tuple[Edit, ...]) -> tuple[Replace, ...]:
        replaced = tuple(edit for edit in edits if isinstance(edit, Replace))
        for edit in replaced:
            self.tokens[self.place[edit.at]] -= edit.tokens_before - edit.tokens_after
        self.plan = self.plan.with_edits(replaced)
        return replaced


def _charged(cached: int, tokens: int, prices: Prices | None) -> float:
    ratio = prices or NO_CACHE
    return charged(cached, tokens, ratio, ratio.minimum)
