"""What was learned of upstreams by their refusals: an option that is not known, a window, a wish about reasoning."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from proxy.errors import StoreError
from proxy.ledger.store import Ledger
from proxy.pruning.reasoning_rules import Lesson
from proxy.server.bounded import put
from proxy.server.past import keep

T = TypeVar("T")
Key = tuple[str, str]
"""Upstream and model."""

_MOST_LISTED = 2_000
"""Models of an upstream; the newest stay."""
_YES = b"yes"

log = structlog.get_logger("proxy")


class Habit(NamedTuple):
    """What is known of a model at an upstream."""

    window: int | None
    """See `Habits.window`."""
    reasoning: Lesson
    """See `Habits.reasoning`."""
    alternates: bool = False
    """See `Habits.alternates`."""


class Habits:
    """Kept in the process, and what concerns a model in the ledger too, so that no restart has to learn it again."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._windows: dict[tuple[str, str], int | None] = {}
        self._listed: dict[str, dict[str, int]] = {}
        self._reasoning: dict[tuple[str, str], Lesson] = {}
        self._alternating: dict[tuple[str, str], bool] = {}
        self.silent: set[str] = set()
        """Upstreams that refuse to be asked for usage."""
        self.unmarked: dict[tuple[str, str], None] = {}
        """Upstreams and models that refuse the cache breakpoints we set."""
        self.guessed: dict[tuple[str, str], None] = {}
        """Upstreams and models whose window no refusal has named: it may be much smaller than what was learned."""

    def known(self, upstream: str, model: str) -> Habit | None:
        """All that is known of a model; None where the ledger has to be asked first, see `of`."""
        key = (upstream, model)
        try:
            window = self._windows[key] or self._listed[upstream].get(model)
            return Habit(window, self._reasoning[key], self._alternating[key])
        except KeyError:
            return None

    async def of(self, upstream: str, model: str) -> Habit:
        """All that is known of a model, read from the ledger at first use."""
        return Habit(
            await self.window(upstream, model),
            await self.reasoning(upstream, model),
            await self.alternates(upstream, model),
        )

    async def window(self, upstream: str, model: str) -> int | None:
        """The context window that an overflow answer taught, else the one in the upstream's list; None for neither."""
        key = (upstream, model)
        if key not in self._windows:
            try:
                stored = await self._ledger.learned(_name(*key))
                guessed = bool(stored) and bool(await self._ledger.learned(_guess_name(*key)))
            except StoreError:
                return None
            put(self._windows, key, int(stored) if stored else None)
            if guessed:
                put(self.guessed, key, None)
        return self._windows[key] or (await self._in_list(upstream)).get(model)

    async def learn_list(self, upstream: str, windows: dict[str, int]) -> None:
        """Remember the windows in the list of models that an upstream has just answered, which may be one page of it."""
        if not windows:
            return
        before = self._listed.get(upstream) or await self._in_list(upstream)
        new = {model: window for model, window in windows.items() if before.get(model) != window}
        if new:
            kept = {model: window for model, window in before.items() if model not in new}
            self._listed[upstream] = dict([*kept.items(), *new.items()][-_MOST_LISTED:])
            log.info("windows_listed", upstream=upstream, models=len(windows))
            await keep(self._ledger, _list_name(upstream), msgspec.json.encode(self._listed[upstream]))

    async def _in_list(self, upstream: str) -> dict[str, int]:
        if upstream not in self._listed:
            try:
                stored = await self._ledger.learned(_list_name(upstream))
                self._listed[upstream] = msgspec.json.decode(stored, type=dict[str, int]) if stored else {}
            except (StoreError, msgspec.DecodeError):
                return {}
        return self._listed[upstream]

    async def reasoning(self, upstream: str, model: str) -> Lesson:
        """What refusals taught about the model's reasoning; empty when nothing has."""
        return await self._read(self._reasoning, (upstream, model), _reasoning_name(upstream, model), _lesson)

    async def learn_reasoning(self, upstream: str, model: str, lesson: Lesson) -> None:
        """Remember what a refusal about reasoning, and the try after it, have shown."""
        put(self._reasoning, (upstream, model), lesson)
        log.info("reasoning_learned", upstream=upstream, model=model, lesson=lesson)
        await keep(self._ledger, _reasoning_name(upstream, model), lesson.encode())

    async def alternates(self, upstream: str, model: str) -> bool:
        """Whether a refusal said that this server wants roles to alternate."""
        return await self._read(self._alternating, (upstream, model), _roles_name(upstream, model), bool)

    async def learn_alternates(self, upstream: str, model: str) -> None:
        """Remember that roles must alternate there."""
        put(self._alternating, (upstream, model), value=True)
        log.info("roles_alternate", upstream=upstream, model=model)
        await keep(self._ledger, _roles_name(upstream, model), _YES)

    async def learn_window(self, upstream: str, model: str, window: int, *, guessed: bool = False) -> None:
        """Remember what an overflow answer said, or what follows from it where it named no window."""
        put(self._windows, (upstream, model), window)
        if guessed:
            put(self.guessed, (upstream, model), None)
        else:
            self.guessed.pop((upstream, model), None)
        log.info("window_learned", upstream=upstream, model=model, window=window)
        # In front of the window: who reads that one alone would take it for certain.
        await keep(self._ledger, _guess_name(upstream, model), _YES if guessed else b"")
        await keep(self._ledger, _name(upstream, model), b"%d" % window)

    async def disproved(self, upstream: str, model: str, window: int) -> None:
        """Forget a window that an overflow answer taught: the provider has taken more."""
        if self._windows.get((upstream, model)) == window:
            put(self._windows, (upstream, model), None)
            log.info("window_disproved", upstream=upstream, model=model, window=window)
            await keep(self._ledger, _name(upstream, model), b"")

    async def _read(self, table: dict[Key, T], key: Key, name: str, told: Callable[[bytes | None], T]) -> T:
        """The value in the table, read from the ledger at first use; while that fails, what nothing stored tells."""
        if key not in table:
            try:
                stored = await self._ledger.learned(name)
            except StoreError:
                return told(None)
            put(table, key, told(stored))
        return table[key]


def _name(upstream: str, model: str) -> str:
    return f"window/{upstream}/{model}"


def _guess_name(upstream: str, model: str) -> str:
    return f"guessed/{upstream}/{model}"


def _roles_name(upstream: str, model: str) -> str:
    return f"roles/{upstream}/{model}"


def _list_name(upstream: str) -> str:
    return f"windows/{upstream}"


def _reasoning_name(upstream: str, model: str) -> str:
    return f"reasoning/{upstream}/{model}"


def _lesson(stored: bytes | None) -> Lesson:
    match stored:
        case b"demanded":
            return "demanded"
        case b"refused":
            return "refused"
        case b"bound":
            return "bound"
        case _:
            return ""
