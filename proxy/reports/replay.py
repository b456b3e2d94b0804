"""What would have been saved on one's own transcripts, as text: the answer of `pruning-proxy replay`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

import msgspec

from proxy.reports.words import counted, dollars, percent, tokens


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
    regrets: int
    """Calls whose answer quotes an identifier that would have stood nowhere in the request any more."""
    direct_over: int
    """Calls whose request, as the client sent it, is longer than the model's window ..."""
    sent_over: int
    """... and those that would still have been, had not a summary been made."""
    input_price: float | None
    """US dollars of one plain input token; None where the price table does not know the model."""


_HEADER = ("conversation", "profile", "calls", "input tokens", "fewer", "cheaper", "regret", "breaks")
_LEAST_NAME = 12
_BAR_LABELS = ("money saved", "regret")
_MOST_MODELS = 6
_LEGEND = """\
fewer    input tokens
cheaper  what they cost, cache breaks included; negative is dearer
regret   calls whose answer quotes a path, number or symbol no longer in sight
breaks   calls at which cached input is written anew
Estimated and simulated: input only, cache always warm, answers as they were."""


def replay_rows(rows: Sequence[Replayed]) -> list[dict[str, Any]]:
    """The rows with the table's shares, each from 0 to 1: `fewer`, `cheaper` (negative is dearer), `regret`.

    And with `direct_dollars` and `dollars`, the two costs in money; None where no price is known.
    """
    return [{**msgspec.structs.asdict(row), **_shares([row]), **_dollars(row)} for row in rows]


def replay_text(rows: Sequence[Replayed], width: int = 80) -> str:
    """Lines for each conversation and profile, the sums of each profile, and its saving and regret as bars.

    `width`: columns of the terminal; long names lose their middle.
    """
    by_profile = {profile: [row for row in rows if row.profile == profile] for profile in _profiles(rows)}
    lines = [_HEADER, *(_cells(row.name, [row]) for row in rows)]
    if len(rows) > len(by_profile):
        lines += [_cells("all together", chosen) for chosen in by_profile.values()]
    notes = [line for note in (_money(by_profile), _models(rows), _over(by_profile)) for line in wrap(note, width)]
    return "\n".join([*_aligned(lines, width), "", *_bars(by_profile, width), "", _LEGEND, *notes])


def _profiles(rows: Sequence[Replayed]) -> list[str]:
    return list(dict.fromkeys(row.profile for row in rows))


def _shares(rows: Sequence[Replayed]) -> dict[str, float]:
    """Of several conversations `cheaper` is a share of the money, where all have a price; else all tokens count alike."""
    all_priced = all(row.input_price for row in rows)
    prices = [row.input_price if row.input_price and all_priced else 1.0 for row in rows]
    direct = sum(row.direct_cost * price for row, price in zip(rows, prices, strict=True))
    sent = sum(row.cost * price for row, price in zip(rows, prices, strict=True))
    return {
        "fewer": _saved(sum(row.direct_tokens for row in rows), sum(row.sent_tokens for row in rows)),
        "cheaper": _saved(direct, sent),
        "regret": sum(row.regrets for row in rows) / (sum(row.calls for row in rows) or 1),
    }


def _dollars(row: Replayed) -> dict[str, float | None]:
    price = row.input_price
    costs = {"direct_dollars": row.direct_cost, "dollars": row.cost}
    return {name: None if price is None else cost * price for name, cost in costs.items()}


def _saved(before: float, after: float) -> float:
    return 1 - after / before if before else 0.0


def _cells(name: str, rows: Sequence[Replayed]) -> tuple[str, ...]:
    calls, direct, breaks = (
        tokens(sum(getattr(row, field) for row in rows)) for field in ("calls", "direct_tokens", "breaks")
    )
    fewer, cheaper, regret = (percent(100 * share) for share in _shares(rows).values())
    return name, rows[0].profile, calls, direct, fewer, cheaper, regret, breaks


def _aligned(lines: Sequence[tuple[str, ...]], width: int) -> Iterator[str]:
    """Each column as wide as it must be, the names as wide as they may; a name is said with its first profile only."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = max(_LEAST_NAME, width - sum(widths[1:]) - 2 * (len(widths) - 1))
    widths[0] = min(widths[0], room)
    first = lines[1][1]
    for name, profile, *numbers in lines:
        said = _shortened(name, widths[0]) if profile in (first, _HEADER[1]) else ""
        right = (f"{number:>{wide}}" for number, wide in zip(numbers, widths[2:], strict=True))
        yield "  ".join([f"{said:<{widths[0]}}", f"{profile:<{widths[1]}}", *right])


def _shortened(name: str, width: int) -> str:
    """Without its middle where it is too long: both ends of a session file's name tell more than its date does."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[-tail:]}"


def _bars(by_profile: dict[str, list[Replayed]], width: int) -> Iterator[str]:
    """Of each profile what it saves and what it hides, on one scale from nothing to all; a loss shows no bar."""
    names = max(map(len, by_profile))
    labels = max(map(len, _BAR_LABELS))
    room = width - names - labels - len("  ") * 3 - len("-100.0 %")
    for profile, rows in by_profile.items():
        shares = _shares(rows)
        for label, share in zip(_BAR_LABELS, (shares["cheaper"], shares["regret"]), strict=True):
            filled = round(room * min(1.0, max(0.0, share)))
            bar = "█" * filled + "·" * (room - filled)
            yield f"{profile:<{names}}  {label:<{labels}}  {bar}  {percent(100 * share):>8}"


def _money(by_profile: dict[str, list[Replayed]]) -> str:
    """What each profile would have saved, and which models' conversations are in no sum of money."""
    said, unpriced = [], set[str]()
    for profile, rows in by_profile.items():
        priced = [(row, row.input_price) for row in rows if row.input_price is not None]
        direct, sent = (sum(getattr(row, field) * price for row, price in priced) for field in ("direct_cost", "cost"))
        said += [f"{profile} saves {dollars(direct - sent)} of {dollars(direct)}"] if priced else []
        unpriced.update(row.model or "no model named" for row in rows if row.input_price is None)
    without = (
        f"No price is known of {', '.join(sorted(unpriced)[:_MOST_MODELS])}: in no sum of money." if unpriced else ""
    )
    return " ".join(filter(None, (f"At list prices {', '.join(said)}." if said else "", without)))


def _models(rows: Sequence[Replayed]) -> str:
    """Whose prices and windows were taken, and how often."""
    first = _profiles(rows)[0]
    models = Counter(row.model or "no model named" for row in rows if row.profile == first)
    named = ", ".join(f"{model} ({count})" for model, count in models.most_common(_MOST_MODELS))
    others = len(models) - _MOST_MODELS
    more = f" and {others} more" if others > 0 else ""
    return f"Prices and windows: {named}{more}; --model NAME takes those of another."


def _over(by_profile: dict[str, list[Replayed]]) -> str:
    """How many calls do not fit; empty where all do."""
    before = max(sum(row.direct_over for row in rows) for rows in by_profile.values())
    after = ", ".join(f"{tokens(sum(row.sent_over for row in rows))} with {name}" for name, rows in by_profile.items())
    if not before:
        return ""
    return f"Longer than the window: {counted(before, 'call')} as they are, {after} (a summary, not played here, is then due)."
