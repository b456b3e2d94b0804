"""Events for whoever watches: one per settled call, per decision, per change of state. Nobody is waited for.

A watcher that does not keep up loses the oldest of its events and is told how many.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MOST_WATCHERS = 64
_MOST_WAITING = 512


@dataclass(frozen=True, slots=True)
class Event:
    """What happened."""

    kind: str
    """call | decision | store | mode | queue | lost"""
    fields: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Watcher:
    """One subscription."""

    waiting: deque[Event] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))
    lost: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> list[Event]:
        """All that has come since the last time."""
        self.news.clear()
        lost = [Event("lost", {"events": self.lost})] if self.lost else []
        events = [*lost, *self.waiting]
        self.waiting.clear()
        self.lost = 0
        return events


class Feed:
    """The one place that events go to. All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self.watched = False
        """Whether anybody watches; building an event is worth it only then."""
        self.ended = False
        """The process is leaving: watchers should, too."""

    @property
    def watchers(self) -> int:
        """How many watch."""
        return len(self._watchers)

    def publish(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Tell everybody who watches."""
        event = Event(kind, fields)
        for watcher in self._watchers:
            watcher.lost += len(watcher.waiting) == _MOST_WAITING
            watcher.waiting.append(event)
            watcher.news.set()

    @contextmanager
    def watching(self) -> Iterator[Watcher]:
        """A subscription, for as long as this lasts."""
        watcher = Watcher()
        self._watchers.add(watcher)
        self.watched = True
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            self.watched = bool(self._watchers)

    def end(self) -> None:
        """Wake everybody up, so that they leave."""
        self.ended = True
        for watcher in self._watchers:
            watcher.news.set()
