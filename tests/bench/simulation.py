"""One recorded session under one policy, turn by turn, against a simulated prompt cache.

The cache holds the last request: what the next one shares with it from the front is read, the rest is written. Prices
are multiples of plain input; output is the same whatever we do and is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.conversation.edit import EMPTY_PLAN, Plan, Replace
from proxy.pruning.horizon import expected_turns
from proxy.pruning.plan import arrive, prune
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices, Situation
from tests.bench.quoting import Sight, texts_of
from tests.bench.sessions import Session

RESERVE = 16_000


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Sums over the turns of one session, in tokens (or token prices)."""

    session: Session
    turns: int = 0
    sent: int = 0
    sent_direct: int = 0
    cost: float = 0.0
    cost_direct: float = 0.0
    cached: int = 0
    breaks: int = 0
    overflows: int = 0
    overflows_direct: int = 0
    quoted: int = 0
    lost: int = 0
    regrets: int = 0
    edits: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    largest: int = 0

    @property
    def saved(self) -> float:
        """Share of the money saved, net of cache breaks."""
        return 1 - self.cost / self.cost_direct if self.cost_direct else 0.0


def run(
    session: Session,
    arriving: ArrivePolicy,
    pruning: PrunePolicy,
    *,
    prices: Prices | None,
    window: int,
    count: Callable[[str], int],
) -> Outcome:
    """What this policy would have sent, paid and hidden."""
    outcome = Outcome(session=session)
    sight = Sight()
    sight.show("system", session.system_text)
    tokens = list(session.message_tokens)
    plan: Plan = EMPTY_PLAN
    ratio = prices or Prices(read=1.0, write=1.0)
    shown = sent_before = 0
    pressed = False
    place = {key: index for index, key in enumerate(session.keys)}
    for turn, end in enumerate(session.answers, start=1):
        for index, message in enumerate(session.messages[shown:end], start=shown):
            for part, text in enumerate(texts_of(message)):
                sight.show((index, part), text)
        edited: list[int] = []

        def apply(edits, edited=edited):
            for edit in edits:
                index = place[edit.at]
                sight.show((index, edit.part), edit.text, is_new=False)
                tokens[index] -= edit.tokens_before - edit.tokens_after
                edited.append(index)
                outcome.edits[edit.kind] = outcome.edits.get(edit.kind, 0) + 1

        def situation(end=end, turn=turn):
            return Situation(
                messages=session.messages[:end],
                keys=session.keys[:end],
                seen=_seen(session, end),
                count=count,
                parts_tokens=session.parts_tokens.__getitem__,
                message_tokens=tokens[:end],
                total=session.head_tokens + sum(tokens[:end]),
                plan=plan,
                window=window,
                reserve=RESERVE,
                prices=prices,
                pressed=pressed,
                expected_turns=expected_turns((), turn),
                tools=session.tools,
            )

        new = arrive(situation(), arriving)
        plan = plan.with_edits(new)
        apply(new)
        decision = prune(situation(), pruning)
        plan = plan.with_edits(decision.edits)
        apply(decision.edits)
        pressed = decision.pressed
        if decision.skipped:
            outcome.skipped[decision.skipped] = outcome.skipped.get(decision.skipped, 0) + 1

        total = session.head_tokens + sum(tokens[:end])
        direct = session.head_tokens + sum(session.message_tokens[:end])
        same = min([sent_before, *edited])
        cached = session.head_tokens + sum(tokens[:same]) if turn > 1 else 0
        cached_direct = session.head_tokens + sum(session.message_tokens[:sent_before]) if turn > 1 else 0
        outcome.turns += 1
        outcome.sent += total
        outcome.sent_direct += direct
        outcome.cached += cached
        outcome.cost += ratio.read * cached + ratio.write * (total - cached)
        outcome.cost_direct += ratio.read * cached_direct + ratio.write * (direct - cached_direct)
        outcome.breaks += same < sent_before
        outcome.overflows += total + RESERVE > window
        outcome.overflows_direct += direct + RESERVE > window
        outcome.largest = max(outcome.largest, total)
        quoted, lost = sight.lost(texts_of(session.messages[end]))
        outcome.quoted += quoted
        outcome.lost += lost
        outcome.regrets += lost > 0
        shown = sent_before = end
    return outcome


def _seen(session: Session, end: int) -> int:
    for index in range(end - 1, -1, -1):
        if session.messages[index].role == "assistant":
            return index + 1
    return 0
