"""What a prompt cache with breakpoints can find of a history whose older messages change.

Such a cache (Anthropic's; OpenAI's from GPT-5.6 on) writes an entry where a call ended, and a later call finds it only if
every byte in front of it is still the same and if it is not too far back. An edit therefore makes worthless every entry
behind it, also those that a later edit would have needed; the next entries stand where the next calls end.
"""

from bisect import bisect_right
from collections.abc import Sequence

from proxy.conversation.model import Message

LOOKBACK = 20
"""Content blocks at which an earlier entry is looked for, the breakpoint's own first (Anthropic docs, "Prompt caching")."""


class Entries:
    """The entries of one history, while its calls are played in their order."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._ends = [0]

    def forget(self) -> None:
        """All of them are gone, but for the head's."""
        self._ends = [0]

    def changed(self, at: int) -> None:
        """Message `at` has another text from now on."""
        while self._ends[-1] > at:
            self._ends.pop()

    def ended(self, end: int) -> None:
        """A call has sent the first `end` messages."""
        self._ends.append(end)

    def found(self, at: int, end: int) -> int:
        """How many leading messages a request of `end` messages finds cached when message `at` is the first to differ.

        0: none of the history; system text and tools have a breakpoint of their own.
        """
        last = self._ends[bisect_right(self._ends, at) - 1]
        # Each message is at least one block.
        if end - last >= LOOKBACK:
            return 0
        blocks = sum([max(1, len(message.parts)) for message in self._messages[last:end]])
        return last if blocks < LOOKBACK else 0
