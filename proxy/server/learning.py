"""What actual counts taught, kept per upstream, model and encoding; shared and persisted through the ledger."""

import time
from collections import Counter
from collections.abc import Callable, Iterable

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


class Estimates:
    """The learned states of this process."""

    def __init__(self, ledger: Ledger, *, enabled: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._enabled = enabled
        self._clock = clock
        self._states: dict[str, Learned] = {}
        self._unwritten: Counter[str] = Counter()
        """Samples that the ledger never got, by name."""
        self._due_at: dict[str, float] = {}
        """When the next of many lessons may be written, by name; seconds of the clock."""
        self._sharing: set[str] = set()
        """Names that are being written: calls that settle meanwhile leave their samples to that or to the next time."""

    def known(self, upstream: str, model: str, encoding: str) -> Learned | None:
        """What `get` gives; None where the ledger has to be asked for it first."""
        return self._states.get(learned_name(upstream, model, encoding)) if self._enabled else NOTHING_LEARNED

    async def get(self, upstream: str, model: str, encoding: str) -> Learned:
        """What is known; read from the ledger at first use."""
        if not self._enabled:
            return NOTHING_LEARNED
        name = learned_name(upstream, model, encoding)
        known = self._states.get(name)
        if known is None:
            try:
                known = decode(await self._ledger.learned(name))
            except StoreError:
                known = NOTHING_LEARNED
            put(self._states, name, known)
        return known

    async def teach(self, upstream: str, model: str, encoding: str, sample: Sample) -> None:
        """Take in one settled call; raises StoreError."""
        if not self._enabled:
            return
        name = learned_name(upstream, model, encoding)
        before = self._states.get(name, NOTHING_LEARNED)
        state = update(before, sample)
        put(self._states, name, state)
        if state.samples == before.samples:
            return
        unwritten = self._unwritten[name] + 1
        put(self._unwritten, name, unwritten)
        is_due = unwritten >= _EVERY and self._clock() >= self._due_at.get(name, 0.0)
        if (is_due or state.samples <= _FEW) and name not in self._sharing:
            self._sharing.add(name)
            try:
                await self._share(name)
            finally:
                self._sharing.discard(name)

    async def _share(self, name: str) -> None:
        """Write what we know, together with what other replicas have written meanwhile."""
        stored = decode(await self._ledger.learned(name))
        new = self._unwritten.pop(name, 0)
        put(self._due_at, name, self._clock() + _APART_S)
        state = merged(self._states.get(name, NOTHING_LEARNED), stored, new)
        put(self._states, name, state)
        try:
            await self._ledger.learn(name, encode(state))
        except StoreError:
            self._unwritten[name] += new
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
