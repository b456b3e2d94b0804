"""What a conversation has cost so far, and what of that its edits have saved: told from the history alone.

Every request carries its whole past: where an assistant message begins, a call ended; each edit knows at which call it
was decided. So the simulated bill of all calls, with the edits and without them, follows from the messages and the plan,
on every replica and after every restart. The cache is taken as warm all the time, which errs on the careful side.
"""

from collections.abc import Iterator

from proxy.conversation.edit import Replace, Summarise
from proxy.conversation.fingerprint import index_of
from proxy.pruning.entries import Entries
from proxy.pruning.situation import Prices, Situation

MAY_LOSE = 0.008
"""Share of the bill so far that may be staked on a conversation's going on. Together with the savings so far it is the
most that a batch of edits may cost at once: a conversation that ends right behind it has lost less than one percent."""


def purse(situation: Situation, prices: Prices) -> float:
    """What a batch may cost at the call at hand, in plain input tokens."""
    unpruned, paid = bills(situation, prices)
    return max(0.0, unpruned - paid + MAY_LOSE * unpruned)


def bills(situation: Situation, prices: Prices) -> tuple[float, float]:
    """What the input of the calls so far would have cost without edits, and what it did cost, by the simulated cache."""
    head, minimum = situation.head_tokens, prices.minimum / situation.density
    edits = _replacements(situation)
    tokens = list(situation.message_tokens)
    for _, index, removed in edits:
        tokens[index] += removed
    # Sizes of the previous call's body; nothing of the first call's is cached.
    direct = sent = 0
    unpruned = paid = 0.0
    before = 0
    entries = Entries(situation.messages)
    for end in call_ends(situation):
        new = sum(tokens[before:end])
        grown = head + new if not before else new
        unpruned += charged(direct, direct + grown, prices, minimum)
        direct += grown
        kept, sent = sent, sent + grown
        changed = before
        while edits and edits[-1][0] <= end:
            _, index, removed = edits.pop()
            tokens[index] -= removed
            sent -= removed
            changed = min(changed, index)
        if changed < before:
            found = entries.found(changed, end) if prices.breakpoints else changed
            kept = head + sum(tokens[:found]) if found or situation.head_kept or not prices.breakpoints else 0
            entries.changed(changed)
        paid += charged(kept, sent, prices, minimum)
        before = end
        entries.ended(end)
    return unpruned, paid


def charged(cached: int, tokens: int, prices: Prices, minimum: float) -> float:
    """For a request that begins with `cached` tokens of the one before it. A cache takes nothing below its minimum."""
    if tokens < minimum:
        return float(tokens)
    read = cached if cached >= minimum else 0
    return prices.read * read + prices.write * (tokens - read)


def call_ends(situation: Situation, since: int = 1) -> Iterator[int]:
    """For each call so far the number of messages it sent, in order; the call at hand is not among them.

    `since`: fewer messages are left out.
    """
    messages = situation.messages
    for index in range(max(1, since), situation.seen):
        if messages[index].role == "assistant" and messages[index - 1].role != "assistant":
            yield index


def _replacements(situation: Situation) -> list[tuple[int, int, int]]:
    """Call, message and removed tokens of each change in the plan, the latest first.

    What had been taken out of a span before a summary swallowed it is not counted, which errs on the careful side.
    """
    place = index_of(situation.keys)
    found = []
    for edit in situation.plan.edits:
        match edit:
            case Replace() if edit.at in place:
                found.append((edit.decided, place[edit.at], edit.tokens_before - edit.tokens_after))
            case Summarise() if edit.first in place and edit.last in place:
                first, last = place[edit.first], place[edit.last]
                for index in range(first, last + 1):
                    left = edit.tokens_after if index == first else 0
                    found.append((edit.decided or last + 1, index, sum(situation.parts_tokens(index)) - left))
            case _:
                pass
    found.sort(reverse=True)
    return found
