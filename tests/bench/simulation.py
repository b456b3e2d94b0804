"""One recorded session under one policy: the product's own rehearsal, with an eye on what the model can still see."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import kind_of
from proxy.exchange.quoting import Sight, answered
from proxy.exchange.rehearsal import NEVER, rehearse
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices
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


@lru_cache(maxsize=20_000)
def lines(text: str) -> frozenset[str]:
    """The lines of a text that say something, without indentation."""
    return frozenset(line for raw in text.split("\n") if len(line := raw.strip()) >= 15 and any(map(str.isalnum, line)))


class LineSight(Sight):
    """With an eye on whole lines too."""

    def __init__(self) -> None:
        super().__init__()
        self._said_lines: set[str] = set()
        self._lines: Counter[str] = Counter()
        self._standing: dict[Hashable, frozenset[str]] = {}

    def show(self, place: Hashable, text: str, *, is_new: bool = True) -> None:
        super().show(place, text, is_new=is_new)
        self._lines.subtract(self._standing.get(place, ()))
        self._standing[place] = lines(text)
        self._lines.update(lines(text))
        if is_new:
            self._said_lines |= lines(text)

    def loses_a_line(self, texts: list[str]) -> bool:
        """Whether these texts quote a whole line, word for word, that stands nowhere any more."""
        return any(self._lines[line] <= 0 for text in texts for line in lines(text) & self._said_lines)


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
    sight = LineSight()
    steps = rehearse(
        session.script,
        arriving,
        pruning,
        prices=prices,
        window=window,
        reserve=RESERVE,
        count=count,
        breakpoints=breakpoints,
        compacting=compacting,
    )
    for step, answer in answered(session.script, steps, sight):
        outcome.edits.update(map(kind_of, step.edits))
        outcome.skipped.update([step.skipped] if step.skipped else [])
        outcome.turns += 1
        outcome.sent += step.sent
        outcome.sent_direct += step.direct
        outcome.cached += step.cached
        outcome.cost += step.cost(prices)
        outcome.cost_direct += step.direct_cost(prices)
        outcome.breaks += step.broke
        outcome.overflows += step.sent + RESERVE > window
        quoted, lost = sight.lost(answer)
        outcome.quoted += quoted
        outcome.lost += lost
        outcome.regrets += lost > 0
        outcome.line_regrets += sight.loses_a_line(answer)
    return outcome
