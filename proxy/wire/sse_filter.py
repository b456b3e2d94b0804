"""Taking single events out of a stream of server-sent events, every other byte as it came."""

from collections.abc import Callable, Sequence

from proxy.wire.sse import Event, EventSplitter

_MOST_HELD_BYTES = 256 * 1024


class EventFilter:
    """Passes a stream on event by event and leaves out those whose data `drops` says so.

    Bytes of an unfinished event are held until its end, but never more than what an event worth dropping can be: a
    longer one is let through as it comes.
    """

    def __init__(self, drops: Callable[[bytes], bool]) -> None:
        self._drops = drops
        self._events = EventSplitter()
        self._held: list[bytes] = []
        """What has not been passed on."""
        self._letting = False
        """The event that has not ended yet goes through as it comes."""
        self.dropped = 0

    def __call__(self, chunk: bytes) -> bytes:
        """What may be passed on now. An empty chunk ends the stream and gives back what is still held."""
        if not chunk:
            return self._rest()
        events = self._events.feed(chunk)
        if not events and self._letting:
            return chunk
        self._held.append(chunk)
        if events:
            return self._passed(events)
        if self._events.held_bytes > _MOST_HELD_BYTES:
            self._letting = True
            return self._released()
        return b""

    def _passed(self, events: Sequence[Event]) -> bytes:
        """All but the event that has not ended yet, without those that are dropped."""
        whole = self._released()
        end = len(whole) - self._events.held_bytes
        if end < len(whole):
            self._held.append(whole[end:])
        self._letting = False
        # The first one's beginning may have been let through: then it begins in front of what is here.
        position = end - sum([len(event.raw) for event in events])
        kept = []
        done = 0
        for event in events:
            begun, position = position, position + len(event.raw)
            if begun >= 0 and self._drops(event.data):
                self.dropped += 1
                kept.append(whole[done:begun])
                done = position
        return b"".join([*kept, whole[done:end]])

    def _rest(self) -> bytes:
        held = self._released()
        # Its blank line may be missing.
        last = self._events.rest() if held else None
        self._events = EventSplitter()
        if last is None or not self._drops(last.data):
            return held
        self.dropped += 1
        return b""

    def _released(self) -> bytes:
        held, self._held = b"".join(self._held), []
        return held
