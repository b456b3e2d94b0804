"""What the ledger keeps: anchors and turns. (Plans: conversation.edit. What edits replaced: ledger.originals.)

An **anchor** stands under the prefix key of what a client sent and says what became of that call. It is written twice:
before the request goes out when there are new decisions (usage still None, so that a retry or another replica replays
the same plan), and after the answer (with usage). A **turn** is the row that reports are made of.

Thousands of them stay in memory and none can be part of a cycle, so the collector need not look at them (`gc=False`).
What stores keep of them leaves out every field that has its default (`omit_defaults`), which is half of it: to change a
field's default is to change what older rows say.
"""

import msgspec

from proxy.tokens.context import error_percent
from proxy.tokens.usage import NOT_REPORTED, Usage


class Reply(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One choice of an answer, as far as it must be recognised when a client sends it back."""

    fingerprint: bytes
    """Over the visible text without white space and the names of the tool calls."""
    share: float = 1.0
    """This choice's part of the visible output, 0–1, by length."""
    calls: int = 0
    """Number of tool calls."""
    reasoning: str = ""
    """Its reasoning and signatures in the dialect's own JSON (dialects.kept), where they may have to be restored."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What is known about one call, found again by the prefix key of the history that the client sent."""

    key: bytes
    session: str
    """Public id of the conversation line, kept from its first call."""
    turn: int
    """1 for the first call of a session."""
    at: float
    """Unix time of the call's start."""
    upstream: str = ""
    """Known when the call is settled."""
    model: str
    plan_id: bytes = b""
    """Empty for the empty plan."""
    sent: bool = True
    """False when the plan was only observed: the body went out as it came."""
    usage: Usage | None = None
    """None while the call runs, and for ever when the provider reported nothing usable."""
    system_tokens: int = 0
    """Estimate of system text outside the history."""
    system_digest: bytes = b""
    tools_tokens: int = 0
    tools_digest: bytes = b""
    replies: tuple[Reply, ...] = ()
    estimated: int = 0
    """Estimate of the body that was sent."""
    server_edits: bool = False
    """The provider edits history itself in this conversation: good as an anchor, useless for learning."""
    removed_tokens: int = 0
    """Estimated tokens that the plan took out of the body: the unpruned input would have been larger by them."""
    refused: bool = False
    """The provider refused a rewritten body in this line: no new decisions any more."""
    pressed: bool = False
    """The call was under pressure (hysteresis of pruning)."""
    warm_tokens: int = 0
    """Simulated: length of the prefix that the provider's cache would hold had nothing been pruned."""
    rewritten: int = 0
    """Messages of the line's last call that found nothing of its history cached; 0: none did."""


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool result that stands in a request."""

    tool: str
    message: int
    """Number of its message in the history, from 1."""
    tokens: int
    """Estimate of what goes out for it: after edits."""
    edit: str = ""
    """Kind of the edit that stands in its place; empty while it is whole."""


class Queued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A user message that waits for a conversation's next call."""

    id: str
    text: str
    at: float
    """Unix time at which it was queued."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One call, as reports see it. Also the `context_estimate` log event."""

    session: str
    """Of a summary call: the conversation that it was made for."""
    turn: int
    """From 1; 0 for our own summary calls, which are no turns of the conversation."""
    at: float
    upstream: str
    model: str
    dialect: str
    basis: str
    """anchored | estimated"""
    estimated: int
    """Predicted input tokens of the body that was sent."""
    usage: Usage = NOT_REPORTED
    grown: int | None = None
    """Actual input minus the anchor's known part: what the estimate really had to guess."""
    removed_tokens: int = 0
    """Estimated tokens that the plan took out of this request."""
    would_remove_tokens: int = 0
    """While observing: estimated tokens that the plan would have taken out. Nothing was: 0 in every other mode."""
    edits: dict[str, int] = {}
    """All edits standing in the request, by kind."""
    new_edits: dict[str, int] = {}
    """Edits decided at this call, by kind."""
    outcome: str = "ok"
    """ok | error | blocked | truncated | client_closed"""
    error_type: str = ""
    error_code: int | str | None = None
    status: int = 200
    tool_calls: int = 0
    overhead_ms: float = 0.0
    label: str = ""
    """The client's own name for the session."""
    purpose: str = "main"
    """main | summary | utility. Count-tokens calls have no row."""
    skipped: str = ""
    """Why nothing was pruned although something could have been; empty otherwise."""
    failed_open: str = ""
    """Name of the stage of ours that failed, when the original bytes went out because of it."""
    exact: int | None = None
    """Input tokens by the provider's count endpoint, of the request as it was about to go out when it was asked: what was
    then decided anew by. `estimated` is the formula's own number all the same."""
    exact_ms: float = 0.0
    """Wait for that endpoint, also where no usable number came; 0 when it was not asked. No part of `overhead_ms`."""
    cost: float | None = None
    """US dollars by the price table; None when model or usage is unknown."""
    cost_unpruned: float | None = None
    """What the same call would have cost without us, by the simulated cache."""
    learned_from: int = 0
    """Samples that corrected the estimate."""
    window: int | None = None
    max_input: int | None = None
    """A limit of the input alone, where the provider has one."""
    reserve: int = 0
    system_tokens: int = 0
    tools_tokens: int = 0
    factor: float = 1.0
    """The provider's tokens for one by our own count, as far as learned: `removed_tokens`, `by_tool`, `largest` and
    `decisions` are told in those, a plan's edits are not."""
    by_tool: dict[str, int] = {}
    """Estimated tokens of the tool results in the history as the client sent them, by tool name."""
    decisions: tuple[str, ...] = ()
    """One line for people per new edit: kind, tool, tokens, reason."""
    plan_id: bytes = b""
    """The plan of this call; empty for the empty plan."""
    last_input: int = 0
    """The formula's terms: reported input of the call before ..."""
    last_output: int = 0
    """... its output as far as this request carried it ..."""
    new_tokens: int = 0
    """... the estimate of what is new ..."""
    corrections: int = 0
    """... and what edits, system text and tools changed since; signed."""
    reasoning_tokens: int = 0
    """Estimate of the reasoning in the request as it went out, part of its messages."""
    reasoning_raw: int = 0
    """Estimate of the reasoning that the client sent, before any edit."""
    dropped_reasoning: int = 0
    """Reasoning blocks that the provider says it dropped, since what stood before them had changed."""
    warning: str = ""
    """Why a row is not what was estimated; empty normally."""
    largest: tuple[Item, ...] = ()
    """The largest tool results that stand in the request, largest first."""
    upstream_ms: float = 0.0
    """From sending to the head of the upstream's answer; 0 when none came."""

    @property
    def spared_tokens(self) -> int:
        """Of `removed_tokens` what the provider would have taken in: none where it refused the call or was not reached."""
        return self.removed_tokens if self._taken else 0

    @property
    def would_spare_tokens(self) -> int:
        """The same of `would_remove_tokens`."""
        return self.would_remove_tokens if self._taken else 0

    @property
    def _taken(self) -> bool:
        return self.outcome != "error" or bool(self.usage.input_tokens)

    @property
    def comparable(self) -> int | None:
        """The actual input that the estimate can be held against.

        None for nothing, for 0, for more than the window holds (gateways that report running totals), and for our own
        summary calls, which nobody estimated.
        """
        actual = self.usage.input_tokens
        return (
            None
            if not actual or self.purpose == "summary" or (self.window is not None and actual > self.window)
            else actual
        )

    @property
    def error(self) -> int | None:
        """Estimated minus actual, in tokens; None when there is nothing to compare with."""
        actual = self.comparable
        return None if actual is None else self.estimated - actual

    @property
    def error_percent(self) -> float | None:
        """Signed, of the actual count."""
        return error_percent(self.estimated, self.comparable)
