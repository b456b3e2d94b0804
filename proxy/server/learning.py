"""What actual counts taught, kept per upstream, model and encoding; shared and persisted through the ledger."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from proxy.conversation.model import Conversation
from proxy.errors import StoreError
from proxy.ledger.records import Turn
from proxy.ledger.store import Ledger
from proxy.server.bounded import put
from proxy.server.policies import encoding_wish
from proxy.server.tokenizers import tokenizer_for
from proxy.settings.values import Settings
from proxy.tokens.learn import NOTHING_LEARNED, Learned, Sample, decode, encode, learned_name, merged, update
from proxy.tokens.treatment import Treatment, treatment

_FEW = 16
_EVERY = 32
_APART_S = 1.0
"""Early lessons are stored one by one, later ones so many at a time and no more often than this: they change little, and a
commit is dear."""

log = structlog.get_logger("proxy")


def pupil(conversation: Conversation) -> str:
    """The model as which a conversation learns: what a provider keeps in front of some calls says nothing of the others."""
    return f"{conversation.model} behind a kept prefix" if conversation.kept_prefix else conversation.model


@dataclass(slots=True, eq=False)
class _Course:
    """What one upstream, model and encoding has taught this process."""

    state: Learned
    unwritten: int = 0
    """Samples that the ledger never got."""
    due_at: float = 0.0
    """When the next of many lessons may be written; seconds of the clock."""
    is_shared: bool = False
    """It is being written: calls that settle meanwhile leave their samples to that or to the next time."""


class Estimates:
    """The learned states of this process."""

    def __init__(self, ledger: Ledger, *, enabled: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._enabled = enabled
        self._clock = clock
        self._courses: dict[str, _Course] = {}

    def known(self, upstream: str, model: str, encoding: str) -> Learned | None:
        """What `get` gives; None where the ledger has to be asked for it first."""
        if not self._enabled:
            return NOTHING_LEARNED
        course = self._courses.get(learned_name(upstream, model, encoding))
        return None if course is None else course.state

    async def get(self, upstream: str, model: str, encoding: str) -> Learned:
        """What is known; read from the ledger at first use."""
        known = self.known(upstream, model, encoding)
        if known is not None:
            return known
        name = learned_name(upstream, model, encoding)
        try:
            known = decode(await self._ledger.learned(name))
        except StoreError:
            known = NOTHING_LEARNED
        # Another call may have asked meanwhile, too, and have taught since.
        course = self._courses.get(name)
        if course is None:
            put(self._courses, name, course := _Course(known))
        return course.state

    async def teach(self, upstream: str, model: str, encoding: str, sample: Sample) -> None:
        """Take in one settled call; raises StoreError."""
        if not self._enabled:
            return
        name = learned_name(upstream, model, encoding)
        course = self._courses.get(name)
        if course is None:
            put(self._courses, name, course := _Course(NOTHING_LEARNED))
        before = course.state
        course.state = state = update(before, sample)
        if state.samples == before.samples:
            return
        course.unwritten += 1
        is_due = state.samples <= _FEW or (course.unwritten >= _EVERY and self._clock() >= course.due_at)
        if is_due and not course.is_shared:
            course.is_shared = True
            try:
                await self._share(name, course)
            finally:
                course.is_shared = False

    async def _share(self, name: str, course: _Course) -> None:
        """Write what we know, together with what other replicas have written meanwhile."""
        stored = decode(await self._ledger.learned(name))
        new, course.unwritten = course.unwritten, 0
        course.due_at = self._clock() + _APART_S
        course.state = merged(course.state, stored, new)
        try:
            await self._ledger.learn(name, encode(course.state))
        except StoreError:
            course.unwritten += new
            raise


async def treatments(ledger: Ledger, settings: Settings, turns: Iterable[Turn]) -> dict[tuple[str, str], Treatment]:
    """For each upstream and model in these rows, what it makes of earlier reasoning; raises StoreError.

    Read from what all processes have stored, for reports.
    """
    found: dict[tuple[str, str], Treatment] = {}
    for upstream, model in {(turn.upstream, turn.model) for turn in turns if turn.purpose != "summary"}:
        encoding = tokenizer_for(model, encoding_wish(settings, upstream, model))
        found[upstream, model] = treatment(decode(await ledger.learned(learned_name(upstream, model, encoding))))
    return found
