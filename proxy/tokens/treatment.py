"""What a provider makes of earlier reasoning, in words: read from what the actual counts have taught (see `learn`)."""

from typing import Final, Literal

from proxy.tokens.learn import Learned

Treatment = Literal["kept", "dropped", "as sent", "not known yet"]
"""Of the reasoning of earlier answers in the next input, by the provider's own counts.

kept: it counts although the request did not carry it. dropped: it does not count although the request carried it.
as sent: it counts where the request carried it and only there.
"""

_LEAST: Final = 8
"""Calls after an answer with reasoning, before anything is said: as many as a fit needs to tell the coefficients apart."""
_TELLING: Final = 50
"""Reasoning tokens below which an answer says nothing about it."""


def treatment(state: Learned) -> Treatment:
    """The treatment that the learned coefficient comes nearest to."""
    if sum(one.growth.reasoning >= _TELLING for one in state.recent) < _LEAST:
        return "not known yet"
    reasoning_kept = state.coefficients[3]
    if reasoning_kept >= 0.5:
        return "kept"
    return "dropped" if reasoning_kept <= -0.5 else "as sent"
