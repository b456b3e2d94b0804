"""Taking single events out of a stream of server-sent events, every other byte as it came."""

from collections.abc import Callable

from proxy.wire.sse import EventSplitter

_MOST_HELD_BYTES = 256 * 1024


class EventFilter:
    """Passes a stream on event by event and leaves out those whose data `drops` says so.

    Bytes of an unfinished event are held until its end, but never more than what an event worth dropping can be: a
    longer one is let through as it comes.
    """

    def __init__(self, drops: Callable[[bytes], bool]) -> None:
        self._drops = drops
        self._events = EventSplitter()
        self._letting = False
        self.dropped = 0

    def __call__(self, chunk: bytes) -> bytes:
        """What may be passed on now. An empty chunk ends the stream and gives back what is still held."""
        if not chunk:
            held = b"" if self._letting else self._events.held
            # Its blank line may be missing.
            last = self._events.rest() if held else None
            self._events = EventSplitter()
            if last is None or not self._drops(last.data):
                return held
            self.dropped += 1
            return b""
        before = self._events.held_bytes
        events = self._events.feed(chunk)
        if not events:
            return self._unfinished(chunk)
        kept = []
        for number, event in enumerate(events):
            if number == 0 and self._letting:
                # Its beginning has been let through; only the end is still ours to give.
                kept.append(event.raw[before:])
            elif self._drops(event.data):
                self.dropped += 1
            else:
                kept.append(event.raw)
        self._letting = False
        return b"".join(kept)

    def _unfinished(self, chunk: bytes) -> bytes:
        if self._letting:
            return chunk
        if self._events.held_bytes > _MOST_HELD_BYTES:
            self._letting = True
            return self._events.held
        return b""
