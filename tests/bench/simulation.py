"""One recorded session under one policy: the product's own rehearsal, with an eye on what the model can still see."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import Replace, Summarise, kind_of
from proxy.exchange.rehearsal import NEVER, rehearse
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices
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
    quoted: int = 0
    lost: int = 0
    regrets: int = 0
    line_regrets: int = 0
    edits: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

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
    breakpoints: bool = False,
    compacting: CompactPolicy = NEVER,
) -> Outcome:
    """What this policy would have sent, paid and hidden."""
    outcome = Outcome(session=session)
    messages = session.script.messages
    place = {key: index for index, key in enumerate(session.script.keys)}
    sight = Sight()
    sight.show("system", session.system_text)
    for step in rehearse(
        session.script,
        arriving,
        pruning,
        prices=prices,
        window=window,
        reserve=RESERVE,
        count=count,
        breakpoints=breakpoints,
        compacting=compacting,
    ):
        for index in range(step.start, step.end):
            for part, text in texts_of(messages[index]):
                sight.show((index, part), text)
        for edit in step.edits:
            _shown(sight, edit, session, place)
            outcome.edits[kind_of(edit)] += 1
        outcome.skipped.update([step.skipped] if step.skipped else [])
        outcome.turns += 1
        outcome.sent += step.sent
        outcome.sent_direct += step.direct
        outcome.cached += step.cached
        outcome.cost += step.cost(prices)
        outcome.cost_direct += step.direct_cost(prices)
        outcome.breaks += step.broke
        outcome.overflows += step.sent + RESERVE > window
        answer = [text for message in messages[step.end : step.end + 1] for _, text in texts_of(message)]
        quoted, lost = sight.lost(answer)
        outcome.quoted += quoted
        outcome.lost += lost
        outcome.regrets += lost > 0
        outcome.line_regrets += sight.loses_a_line(answer)
    return outcome


def _shown(sight: Sight, edit: Replace | Summarise, session: Session, place: dict[bytes, int]) -> None:
    """What stands in the messages that an edit changes."""
    if isinstance(edit, Replace):
        sight.show((place[edit.at], edit.part), edit.text, is_new=False)
        return
    first = place[edit.first]
    for index in range(first, place[edit.last] + 1):
        for part, _ in texts_of(session.script.messages[index]):
            sight.show((index, part), "", is_new=False)
    sight.show((first, "record"), edit.text, is_new=False)
