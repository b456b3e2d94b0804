"""One recorded session under one policy, turn by turn, against a simulated prompt cache.

The cache holds the last request: what the next one shares with it from the front is read, the rest is written. Prices
are multiples of plain input; output is the same whatever we do and is left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from proxy.conversation.edit import EMPTY_PLAN, Edit, Plan
from proxy.conversation.model import after_last_assistant
from proxy.pruning.horizon import expected_turns
from proxy.pruning.plan import arrive, prune
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices, Situation
from tests.bench.quoting import Sight, texts_of
from tests.bench.sessions import Session

PLAIN = Prices(read=1.0, write=1.0)
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
) -> Outcome:
    """What this policy would have sent, paid and hidden."""
    line = _Line(session, prices, window, count)
    for turn, end in enumerate(session.answers, start=1):
        line.say(end)
        changed = line.apply(arrive(line.situation(end, turn), arriving))
        decision = prune(line.situation(end, turn), pruning)
        changed = min(changed, line.apply(decision.edits))
        line.pressed = decision.pressed
        line.outcome.skipped.update([decision.skipped] if decision.skipped else [])
        line.charge(end, changed)
        line.answer(end)
    return line.outcome


class _Line:
    """The conversation as it has gone out so far."""

    def __init__(self, session: Session, prices: Prices | None, window: int, count: Callable[[str], int]) -> None:
        self.session, self.prices, self.window, self.count = session, prices, window, count
        self.outcome = Outcome(session=session)
        self.plan: Plan = EMPTY_PLAN
        self.tokens = list(session.message_tokens)
        self.pressed = False
        self._before = 0
        self._place = {key: index for index, key in enumerate(session.keys)}
        self._sight = Sight()
        self._sight.show("system", session.system_text)

    def say(self, end: int) -> None:
        for index, message in enumerate(self.session.messages[self._before : end], start=self._before):
            for part, text in texts_of(message):
                self._sight.show((index, part), text)

    def situation(self, end: int, turn: int) -> Situation:
        session = self.session
        tokens = self.tokens[:end]
        return Situation(
            messages=session.messages[:end],
            keys=session.keys[:end],
            seen=after_last_assistant(session.messages[:end]),
            count=self.count,
            parts_tokens=session.parts_tokens.__getitem__,
            message_tokens=tokens,
            total=session.head_tokens + sum(tokens),
            plan=self.plan,
            window=self.window,
            reserve=RESERVE,
            prices=self.prices,
            pressed=self.pressed,
            expected_turns=expected_turns((), turn),
            tools=session.tools,
        )

    def apply(self, edits: Iterable[Edit]) -> int:
        """The first message that these edits change; far away when there are none."""
        first = len(self.tokens)
        self.plan = self.plan.with_edits(tuple(edits))
        for edit in edits:
            index = self._place[edit.at]
            self._sight.show((index, edit.part), edit.text, is_new=False)
            self.tokens[index] -= edit.tokens_before - edit.tokens_after
            self.outcome.edits[edit.kind] += 1
            first = min(first, index)
        return first

    def charge(self, end: int, changed: int) -> None:
        head, plain, outcome = self.session.head_tokens, self.session.message_tokens, self.outcome
        ratio = self.prices or PLAIN
        kept = min(self._before, changed)
        is_first = self._before == 0
        total, direct = head + sum(self.tokens[:end]), head + sum(plain[:end])
        cached = 0 if is_first else head + sum(self.tokens[:kept])
        cached_direct = 0 if is_first else head + sum(plain[: self._before])
        outcome.turns += 1
        outcome.sent += total
        outcome.sent_direct += direct
        outcome.cached += cached
        outcome.cost += ratio.read * cached + ratio.write * (total - cached)
        outcome.cost_direct += ratio.read * cached_direct + ratio.write * (direct - cached_direct)
        outcome.breaks += kept < self._before
        outcome.overflows += total + RESERVE > self.window
        self._before = end

    def answer(self, end: int) -> None:
        said = [text for _, text in texts_of(self.session.messages[end])]
        quoted, lost = self._sight.lost(said)
        self.outcome.quoted += quoted
        self.outcome.lost += lost
        self.outcome.regrets += lost > 0
        self.outcome.line_regrets += self._sight.loses_a_line(said)
