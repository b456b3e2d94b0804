"""What counting tokens costs: CPU time per MB of recorded sessions, and of five megabytes of what tokenizers like least."""

import time
from dataclasses import dataclass
from random import Random

from proxy.server.tokenizers import ENCODINGS, RULE, Counter, counter, pieces
from proxy.tokens.estimate import texts_of
from tests.bench.talks import talks
from tests.bench.worst_texts import WORST

_ROUNDS = 3
"""Of each piece the fastest counts: whatever else runs on the machine only adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """CPU time that counting took."""

    encoding: str
    text: str
    megabytes: float
    seconds: float
    longest_ms: float
    """Of one piece: for so long the event loop is held when the text is counted beside other calls."""

    @property
    def ms_per_mb(self) -> float:
        """Milliseconds for a megabyte (10⁶ bytes)."""
        return 1000 * self.seconds / self.megabytes


def counted(every: int = 1) -> list[Counted]:
    """Recorded sessions first, then the worst texts; both encodings. Empty sessions give no row."""
    sessions = "\n".join(
        text
        for talk in talks("chat", every=every)
        for message in talk.conversation.messages
        for text in texts_of(message)
    )
    texts = {"recorded sessions": sessions} if sessions else {}
    texts |= {kind: make(Random(1)) for kind, make in WORST.items()}
    return [
        _counted(counter(encoding), kind, text)
        for encoding in ENCODINGS
        if encoding != RULE
        for kind, text in texts.items()
    ]


def _counted(count: Counter, kind: str, text: str) -> Counted:
    count("the vocabulary is loaded now")
    fastest = [min(times) for times in zip(*(_round(count, text) for _ in range(_ROUNDS)), strict=True)]
    return Counted(
        encoding=count.name,
        text=kind,
        megabytes=len(text.encode()) / 1e6,
        seconds=sum(fastest),
        longest_ms=1000 * max(fastest),
    )


def _round(count: Counter, text: str) -> list[float]:
    """CPU seconds of each piece."""
    times = []
    before = time.thread_time()
    for piece in pieces(text):
        count(piece)
        now = time.thread_time()
        times.append(now - before)
        before = now
    return times
