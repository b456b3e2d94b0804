"""What a decision is made from: one request as it would go out, and what is known about its cache and its future."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from proxy.conversation.edit import EMPTY_PLAN, Edit, Plan
from proxy.conversation.model import Message
from proxy.pruning.lasting import Lasting
from proxy.pruning.results import Standing
from proxy.pruning.strategies.passages import Passages


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What cached and newly cached input costs, as a multiple of plain input."""

    read: float
    write: float
    minimum: int = 0
    """Tokens below which nothing is cached."""

    @property
    def breakpoints(self) -> bool:
        """Whether the cache finds an entry only where an earlier call had ended.

        So do those that charge for writing (Anthropic, OpenAI from GPT-5.6 on); the others match any prefix.
        """
        return self.write > 1


class Situation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One request, replayed and measured, before new decisions."""

    messages: tuple[Message, ...]
    """As the client sent them."""
    keys: Sequence[bytes]
    """Prefix key behind each message."""
    seen: int
    """Index of the first message that no model has seen (`after_last_assistant`)."""
    count: Callable[[str], int]
    """Estimated tokens of a text."""
    parts_tokens: Callable[[int], Sequence[int]]
    """Estimated tokens of each part of message i, as the client sent it; of results the content alone."""
    message_tokens: Sequence[int]
    """Estimated tokens of each message as it would go out with the inherited plan; 0 for what a summary replaced."""
    total: int
    """The unified formula's estimate of the input, before new edits."""
    least: int | None = None
    """The same where the provider counts what is new as it has counted the rest, should that be less; None: it has counted
    nothing yet."""
    counted: float | None = None
    """The provider's tokens for each of ours in what it has counted; None likewise."""
    head: int | None = None
    """Estimated tokens in front of the messages: system text and tools. None: what the total leaves for them."""
    head_kept: bool = True
    """Where the cache knows breakpoints: there is one behind the head, so that it is found when nothing else is."""
    plan: Plan = EMPTY_PLAN
    """Inherited from the deepest anchor, already applied."""
    window: int | None = None
    """What input and reserve may fill together, in tokens: the model's context window, or less where its input alone has a
    limit; None when unknown."""
    reserve: int = 0
    """Tokens of the window kept for the answer."""
    prices: Prices | None = None
    """None: the provider has no prompt cache (or reports none), so that an edit never breaks anything."""
    cold: bool = False
    """The provider's cache has expired, so that everything is written anew anyway."""
    doubtful: bool = False
    """That it has is only likely: an edit may cost as much as where it is warm."""
    rewritten: int = 0
    """Messages of the last call that found nothing cached: entries of the calls before it are gone. 0: none did."""
    pressed: bool = False
    """The line's previous call was under pressure (`Decision.pressed`)."""
    expected_turns: float | None = None
    """How many more calls this conversation will probably make (`horizon.expected_turns`); None: as many as it has made."""
    model: str = ""
    bound: int | None = None
    """Messages before this one must not change, by what was learned or configured; None: `pruning.gate` says it."""
    tools: tuple[str, ...] = ()
    """Names of the tools that the request offers."""
    results: Sequence[tuple[Standing, ...]] = ()
    """The results of each message as they stand under the plan, where they are known already (`pruning.results`)."""
    behind_marked: int = 0
    """Index behind the last message that a client put in the place of an older history."""
    passages: Passages = msgspec.field(default_factory=Passages)
    """What earlier results say; the same object for all requests of a conversation saves reading them again."""
    lasting: Lasting = msgspec.field(default_factory=Lasting)
    """The identifiers that stand where nothing is pruned; likewise."""

    @property
    def usable(self) -> int | None:
        """Tokens of the window that input may fill."""
        return None if self.window is None else max(0, self.window - self.reserve)

    @property
    def head_tokens(self) -> int:
        """Tokens in front of the messages."""
        return max(0, self.total - sum(self.message_tokens)) if self.head is None else self.head

    @cached_property
    def density(self) -> float:
        """The provider's tokens for each of ours: the total follows its counts, what stands for messages does not."""
        if self.counted is not None:
            return self.counted
        return self.total / max(1, self.head_tokens + sum(self.message_tokens))


def sent_before(situation: Situation) -> int:
    """Index behind the last message that the previous call had sent: what its answer stands behind."""
    end = situation.seen
    while end and situation.messages[end - 1].role == "assistant":
        end -= 1
    return end


def stays_cached(situation: Situation, removed: int) -> bool:
    """Whether enough is left for the cache to take it: a smaller request is paid in full at every call."""
    if situation.prices is None:
        return True
    total = situation.total if situation.least is None else situation.least
    return total - situation.density * removed >= situation.prices.minimum


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """New edits of older results, or why there are none."""

    edits: tuple[Edit, ...] = ()
    skipped: str = ""
    """Why nothing was pruned although something could have been; empty when something was, or nothing could be."""
    pressed: bool = False
    """Whether the call is under pressure; the next call of the line wants to know."""
