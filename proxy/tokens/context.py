"""The unified formula: one number for the size of the next input, and the rows it is made of.

    anchored     last_input + last_output_resent + new + corrections
    estimated    system + tools + messages + the reply's priming, where no earlier call is known

`last_input` is what the provider reported for the anchor's call, cached tokens included. `last_output_resent` is that
call's output less the reasoning that this request does not carry. `new` is the estimate of every message behind the
reply. Corrections come at once, not a call later: what edits newer than the anchor take out of the anchored part and put
in, and by how much system text and tools have changed since. Display, pruning, compaction, admission and the log all read
this one value, so they cannot disagree. Sizes are tokens.
"""

from typing import Final, Literal

import msgspec

Basis = Literal["anchored", "estimated"]

MOST_RESERVE: Final = 32_000
"""Kept free for an answer whose request names no limit: the cap of opencode (2026-08)."""


class Last(msgspec.Struct, frozen=True, kw_only=True):
    """The anchor: a call whose actual usage is known and whose history this request continues."""

    input_tokens: int
    """Everything that stood in its prompt, by the provider's own count."""
    output_tokens: int = 0
    """Everything it wrote, reasoning included."""
    reasoning_tokens: int = 0
    """Part of the output."""
    share: float = 1.0
    """The part of its output that came back, when it gave several answers (`n`)."""
    reply_sent: bool = True
    """False when the request does not carry its reply: a retry, a regenerated answer."""
    reasoning_sent: bool = False
    """The reply came back together with its reasoning."""
    system: int = 0
    """Estimate of its system text, by the same scale as today's."""
    tools: int = 0
    removed: int = 0
    """Taken out of the anchored part by edits newer than this call."""
    added: int = 0
    """Put into the anchored part by edits newer than this call: placeholders, summaries, restored reasoning."""


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """What this request is made of, by estimate."""

    system: int
    tools: int
    new: int
    """With an anchor: all messages behind its reply. Without: all messages, as they are sent."""
    reasoning: int = 0
    """Reasoning that the body carries as it goes out, for the display; part of the messages."""
    reasoning_raw: int = 0
    """Reasoning that the client sent, before any edit."""
    priming: int = 0
    """What the wire format adds once a request; part of an anchor's input, so only the pure estimate adds it."""
    least: int = 0
    """What stands in the request for certain: where we count more than the provider does, edits newer than the anchor could
    take out more than there was."""
    unmeasured: bool = False
    """Some assistant message in `new` is an answer whose usage never came (a cut stream) or that the client has changed since."""


class ContextSize(msgspec.Struct, frozen=True):
    """The number, its basis and its rows. `system + tools + messages == total`, always.

    The first two are given by place: of more than 15 names in one call Python makes a dict first.
    """

    total: int
    basis: Basis
    last_input: int
    last_output_resent: int
    new: int
    corrections: int
    """Signed. `last_input + last_output_resent + new + corrections == total`, always."""
    system: int
    tools: int
    messages: int
    reasoning: int
    """Part of the messages."""
    warning: str
    """Why a row is not what was estimated; empty normally."""
    window: int | None
    reserve: int
    usable: int | None
    """See `usable_tokens`."""
    max_input: int | None = None
    """A limit of the input alone, where the provider has one."""
    reasoning_raw: int = 0
    """What the client sent of it; edits make the difference to `reasoning`."""

    @property
    def room(self) -> int | None:
        """What input and reserve may fill together: the window, or less where the input alone has a limit."""
        usable = self.usable
        return None if usable is None else usable + self.reserve

    @property
    def free(self) -> int | None:
        """What may still come: window − total − reserve; negative when over."""
        usable = self.usable
        return None if usable is None else usable - self.total

    @property
    def percent(self) -> float | None:
        """Share of the whole window, the reserve not counted as used."""
        return 100.0 * self.total / self.window if self.window else None

    @property
    def overflows(self) -> bool:
        """Whether input and reserve together are more than the window. False when the window is unknown."""
        usable = self.usable
        return usable is not None and self.total > usable


def context_size(
    present: Present,
    last: Last | None = None,
    *,
    window: int | None = None,
    reserve: int = 0,
    max_input: int | None = None,
) -> ContextSize:
    """The unified formula. `last` None: pure estimate."""
    if last is None:
        last_input = resent = 0
        corrections = present.system + present.tools + present.priming
    else:
        last_input, resent = last.input_tokens, last_output_resent(last)
        corrections = last.added - last.removed + present.system - last.system + present.tools - last.tools
    uncorrected = last_input + resent + present.new
    total = max(present.least, uncorrected + corrections)
    system, tools, messages, warning = _rows(total, present)
    return ContextSize(
        total,
        "estimated" if last is None else "anchored",
        last_input=last_input,
        last_output_resent=resent,
        new=present.new,
        corrections=total - uncorrected,
        system=system,
        tools=tools,
        messages=messages,
        reasoning=min(present.reasoning, messages),
        warning=warning
        or ("an answer is estimated: it is not the one whose usage was reported" if present.unmeasured else ""),
        window=window,
        reserve=reserve,
        usable=usable_tokens(window, reserve, max_input),
        max_input=max_input,
        reasoning_raw=present.reasoning_raw,
    )


def usable_tokens(window: int | None, reserve: int, max_input: int | None) -> int | None:
    """What the input may fill: the window without the reserve, and no more than the provider's input limit."""
    if window is None:
        return max_input
    usable = window - reserve
    return usable if max_input is None else min(usable, max_input)


def last_output_resent(last: Last) -> int:
    """Tokens of the anchor's own answer that stand in this request.

    Some providers report more reasoning than output (they count it outside); then nothing visible is left, never less.
    """
    if not last.reply_sent:
        return 0
    kept = last.output_tokens if last.reasoning_sent else max(0, last.output_tokens - last.reasoning_tokens)
    return round(kept * last.share)


def reserve_tokens(requested: int | None, model_max: int | None, window: int | None) -> int:
    """What to keep free for the answer: the request's own limit, else the model's up to 32k; at most half the window."""
    wanted = requested if requested and requested > 0 else min(model_max or MOST_RESERVE, MOST_RESERVE)
    return wanted if window is None else min(wanted, window // 2)


def error_percent(estimated: int, actual: int | None) -> float | None:
    """Signed error of an estimate, in percent of the actual count; None when nothing or 0 was reported."""
    return 100.0 * (estimated - actual) / actual if actual else None


def _rows(total: int, present: Present) -> tuple[int, int, int, str]:
    """System, tools and messages, adding up to the total; the messages are what is left."""
    fixed = present.system + present.tools
    if fixed <= total:
        return present.system, present.tools, total - fixed, ""
    system = total * present.system // fixed
    return system, total - system, 0, "system and tools are estimated at more than the whole; both are scaled"
