"""What was learned of upstreams by their refusals: who does not know an option, and how large a window is."""

import structlog

from proxy.errors import StoreError
from proxy.ledger.store import Ledger

log = structlog.get_logger("proxy")


class Habits:
    """Kept in the process, and windows in the ledger too, so that a restart does not have to learn them again."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._windows: dict[tuple[str, str], int | None] = {}
        self.silent: set[str] = set()
        """Upstreams that refuse to be asked for usage."""

    async def window(self, upstream: str, model: str) -> int | None:
        """The context window that an overflow answer taught; None when none has."""
        key = (upstream, model)
        if key not in self._windows:
            try:
                stored = await self._ledger.learned(_name(*key))
            except StoreError:
                return None
            self._windows[key] = int(stored) if stored else None
        return self._windows[key]

    async def learn_window(self, upstream: str, model: str, window: int) -> None:
        """Remember what an overflow answer said."""
        self._windows[upstream, model] = window
        log.info("window_learned", upstream=upstream, model=model, window=window)
        try:
            await self._ledger.learn(_name(upstream, model), b"%d" % window)
        except StoreError as error:
            log.warning("failed_open", stage="learn", error=type(error).__name__)


def _name(upstream: str, model: str) -> str:
    return f"window/{upstream}/{model}"
