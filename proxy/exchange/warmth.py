"""What of a request the provider's cache may still hold, by what is known of the call before it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from proxy.conversation.edit import Plan, Replace, Summarise, first_of
from proxy.conversation.model import Conversation, Message
from proxy.exchange.policy import Policy
from proxy.exchange.receive import Memory
from proxy.ledger.records import Anchor
from proxy.pricing.prices import HOUR_FACTOR, HOUR_S
from proxy.pruning.situation import Prices

_DAY_S = 86_400.0
"""No prompt cache keeps an unused entry for longer (OpenAI's extended retention)."""


class Warmth(NamedTuple):
    """See `pruning.situation`."""

    prices: Prices | None
    cold: bool
    doubtful: bool
    rewritten: int
    """Of the calls before."""


def warmth_of(conversation: Conversation, memory: Memory, policy: Policy, now: float) -> Warmth:
    """Cold after a pause, for another model, and where something in front of the history has changed."""
    prices, ttl_s = _cache_of(memory, policy)
    line = memory.line
    if line is None:
        return Warmth(prices, cold=False, doubtful=False, rewritten=0)
    idle_s = now - line.at
    if idle_s > ttl_s:
        doubtful = policy.cache_outlives and idle_s <= _DAY_S
        return Warmth(prices, cold=True, doubtful=doubtful, rewritten=line.rewritten)
    changed = line.model != conversation.model or other_head(line, *head_digests(conversation))
    # What had been there may be back, as models and tools that come and go are; not where each call brings something new.
    doubtful = changed and not _found_nothing(memory, line)
    return Warmth(prices, cold=changed, doubtful=doubtful, rewritten=line.rewritten)


def oldest_entry(messages: Sequence[Message], plan: Plan, index: Mapping[bytes, int], last: int) -> int:
    """Where a cache with breakpoints has its oldest entry behind the newest edit of messages 0 to `last`; 0: none was edited.

    Given as the number of messages in it. The call that edited them wrote it: breakpoints stand where a call ends and where
    the one before had ended. `index`: message of each prefix key.
    """
    edits = [edit for edit in plan.edits if isinstance(edit, Replace | Summarise)]
    ends = [edit.decided for edit in edits if 0 <= index.get(first_of(edit), -1) <= last]
    end = min(max(ends, default=0), len(messages))
    return next((at for at in range(end - 1, 0, -1) if messages[at].role == "assistant"), 0)


def _cache_of(memory: Memory, policy: Policy) -> tuple[Prices | None, float]:
    """What the cache costs, and how long its entries live: for an hour where the client's last call has written so."""
    measured = memory.measured
    if policy.prices is None or measured is None or measured.usage is None or not measured.usage.keeps_an_hour:
        return policy.prices, policy.cache_ttl_s
    return replace(policy.prices, write=policy.prices.write * HOUR_FACTOR), max(policy.cache_ttl_s, HOUR_S)


def _found_nothing(memory: Memory, line: Anchor) -> bool:
    """Whether the last call had another head than the one before it, too, and read none of its history from the cache."""
    if line.rewritten != memory.line_at + 1 or line.usage is None:
        return False
    return (line.usage.cache_read_tokens or 0) <= line.system_tokens + line.tools_tokens


def head_digests(conversation: Conversation) -> tuple[bytes, bytes]:
    """Of system text and tools; empty where there are none."""
    system = conversation.system
    if len(system) <= 1:
        return system[0].digest if system else b"", conversation.tools.digest
    return blake2b(b"".join([message.digest for message in system]), digest_size=16).digest(), conversation.tools.digest


def other_head(anchor: Anchor, system: bytes, tools: bytes) -> bool:
    """Whether that call had other system text or other tools, as far as it is known."""
    return (anchor.system_digest not in (b"", system)) or (anchor.tools_digest not in (b"", tools))
