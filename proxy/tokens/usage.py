"""What a provider reported, in one normal form.

`input_tokens` is *everything* that stood in the prompt, cached and newly cached tokens included; `output_tokens` is
everything the model wrote, reasoning included. None means "not reported", which is not zero. Dialects convert to this
form at the edge (their own fields differ: see each dialect's `usage`), and the last word of a stream wins.
The naming follows the OpenTelemetry GenAI attributes.
"""

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Token counts of one call. Stored without what was not reported (see ledger.records)."""

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    """Part of the input."""
    cache_write_tokens: int | None = None
    """Part of the input."""
    hour_write_tokens: int | None = None
    """Part of what was written: to live for an hour instead of minutes, at a higher price. None for none."""
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Part of the output; 0 means that the provider said 0 or that it splits without reasoning."""

    @property
    def keeps_an_hour(self) -> bool:
        """Whether most of what the call wrote to the cache was written for an hour."""
        return 2 * (self.hour_write_tokens or 0) > (self.cache_write_tokens or 0)

    def merged(self, later: "Usage") -> "Usage":
        """This usage with every field that `later` reports; streams repeat and correct themselves."""
        if self is NOT_REPORTED:
            return later
        return Usage(
            input_tokens=_last(self.input_tokens, later.input_tokens),
            cache_read_tokens=_last(self.cache_read_tokens, later.cache_read_tokens),
            cache_write_tokens=_last(self.cache_write_tokens, later.cache_write_tokens),
            hour_write_tokens=_last(self.hour_write_tokens, later.hour_write_tokens),
            output_tokens=_last(self.output_tokens, later.output_tokens),
            reasoning_tokens=_last(self.reasoning_tokens, later.reasoning_tokens),
        )


NOT_REPORTED = Usage()


_MOST_ENVELOPE = 400
"""What an estimate may hold that a server does not charge, in tokens: Anthropic's tool prompt is 346 (see
tokens.estimate), and llama.cpp, LiteLLM and vLLM speak its format without one."""


def _last(before: int | None, after: int | None) -> int | None:
    return before if after is None else after


def is_possible(usage: Usage, *, window: int | None, sent_estimate: int) -> bool:
    """Whether the input count can be that of a body estimated at `sent_estimate`.

    Refused: nothing or 0; more than the window (gateways that report running totals); less than a quarter of what the
    estimate leaves without its envelopes (servers that report only what they evaluated, leaving out the cache).
    """
    count = usage.input_tokens
    if not count or count < 0:
        return False
    if window is not None and count > window:
        return False
    return count * 4 >= sent_estimate - _MOST_ENVELOPE
