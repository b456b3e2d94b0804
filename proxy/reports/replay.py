"""What would have been saved on one's own transcripts, as text: the answer of `pruning-proxy replay`."""

from collections.abc import Sequence

import msgspec


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation under one profile. Input only, by estimates and a simulated cache."""

    name: str
    """Of the transcript."""
    model: str
    profile: str
    calls: int
    direct_tokens: int
    """Of all requests as the client sent them."""
    sent_tokens: int
    """Of all requests as they would have gone out."""
    direct_cost: float
    """Of the client's requests, in plain input tokens: cached ones count for less, newly cached ones for more."""
    cost: float
    """The same as it would have been, cache breaks included."""
    breaks: int
    """Calls at which something that was cached had to be written anew."""


_HEADER = (
    f"{'conversation':<32} {'profile':<8} {'calls':>6} {'input tokens':>13} {'fewer':>7} {'cheaper':>8} {'breaks':>7}"
)

_BAR_CHARS = 50


def replay_text(rows: Sequence[Replayed]) -> str:
    """A line for each conversation and profile, then the sums of each profile, and what each saves as a bar."""
    lines = [_HEADER, *(_line(row.name, [row]) for row in rows)]
    profiles = list(dict.fromkeys(row.profile for row in rows))
    if len(rows) > len(profiles):
        lines += [_line("all together", [row for row in rows if row.profile == profile]) for profile in profiles]
    lines += ["", *(_bar(profile, [row for row in rows if row.profile == profile]) for profile in profiles), ""]
    lines.append("Estimated and simulated: input only, the cache always warm, prices as ratios; negative is dearer.")
    return "\n".join(lines)


def _bar(profile: str, rows: Sequence[Replayed]) -> str:
    """How much of the money a profile saves in all, as a bar; a loss shows none."""
    saved = _cheaper(rows)
    filled = round(_BAR_CHARS * min(1.0, max(0.0, saved)))
    return f"{profile[:10]:<10} {'█' * filled}{'·' * (_BAR_CHARS - filled)} {saved:>6.1%} saved"


def _cheaper(rows: Sequence[Replayed]) -> float:
    direct_cost = sum(row.direct_cost for row in rows)
    return 1 - sum(row.cost for row in rows) / direct_cost if direct_cost else 0.0


def _line(name: str, rows: Sequence[Replayed]) -> str:
    direct = sum(row.direct_tokens for row in rows)
    fewer = 1 - sum(row.sent_tokens for row in rows) / direct if direct else 0.0
    cheaper = _cheaper(rows)
    calls, breaks = sum(row.calls for row in rows), sum(row.breaks for row in rows)
    return f"{name[:32]:<32} {rows[0].profile:<8} {calls:>6} {direct:>13,} {fewer:>7.1%} {cheaper:>8.1%} {breaks:>7}"
