"""What each policy saves, costs and hides on recorded sessions: `python -m tests.bench.economics [PATH…]`.

Every turn of every session goes through the pure functions of `proxy.pruning` and a simulated prompt cache. Columns:
tokens and money saved (net of cache breaks; money by the price model's read/write ratios), cached share, breaks per
100 turns, requests over the window, regret (share of turns that quote an identifier which stands nowhere any more; see
proxy/exchange/quoting.py), line regret (a whole line), and the worst session. Sessions are shown in two parts, chosen
by their names: settings may be tuned on the first, the second is held out.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from proxy.compaction.policy import PRESETS as COMPACT
from proxy.compaction.policy import CompactPolicy
from proxy.exchange.rehearsal import NEVER
from proxy.pruning.policy import PRESETS, ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices
from tests.bench.sessions import Session, a_counter, sessions
from tests.bench.simulation import Outcome, run

DATA = Path(__file__).parents[1] / "data" / "trajectories"

PRICES: dict[str, Prices | None] = {
    "0.1/1.25": Prices(read=0.1, write=1.25),
    "0.05/1.25": Prices(read=0.05, write=1.25),
    "0.1/1": Prices(read=0.1, write=1.0),
    "0.25/1": Prices(read=0.25, write=1.0),
    "0.5/1": Prices(read=0.5, write=1.0),
    "none": None,
}

OFF = ArrivePolicy(enabled=False)
Chosen = tuple[ArrivePolicy, PrunePolicy, CompactPolicy]
POLICIES: dict[str, Chosen] = {
    "gentle": (*PRESETS["gentle"], COMPACT["gentle"]),
    "bold": (*PRESETS["bold"], COMPACT["bold"]),
    "bold, no early records": (*PRESETS["bold"], NEVER),
    "arrival only": (PRESETS["gentle"][0], PrunePolicy(policy="pressure", engage=9.0, release=8.0), NEVER),
    "seeds 40k/20k": (OFF, PrunePolicy(policy="always"), NEVER),
    "always 20k/20k": (OFF, PrunePolicy(policy="always", protect_tokens=20_000), NEVER),
}

_GENTLE_ARRIVE, _GENTLE = PRESETS["gentle"]
CURVE: dict[str, Chosen] = {
    f"{protect // 1000}k protected, {share:.0%} kept": (
        _GENTLE_ARRIVE,
        replace(_GENTLE, protect_tokens=protect, keep_share=share),
        NEVER,
    )
    for protect in (0, 4_000, 8_000, 16_000, 32_000)
    for share in (0.02, 0.05, 0.12, 0.25)
} | {
    f"bold, records behind {tail // 1000}k": (*PRESETS["bold"], replace(COMPACT["bold"], early_tail_tokens=tail))
    for tail in (2_000, 4_000, 8_000, 12_000, 20_000)
}

LONG_TOKENS = 60_000
SUMMED = (
    "turns", "sent", "sent_direct", "cost", "cost_direct", "cached", "breaks", "overflows", "regrets", "line_regrets",
    "lost", "quoted",
)  # fmt: skip


def summary(outcomes: list[Outcome]) -> dict[str, float | str]:
    """The row of a table: sums over sessions, not means of shares."""
    total = {name: sum(getattr(outcome, name) for outcome in outcomes) for name in SUMMED}
    worst = min(outcomes, key=lambda outcome: outcome.saved)
    turns = total["turns"] or 1
    return {
        "sessions": len(outcomes),
        "turns": total["turns"],
        "tokens_saved": 1 - total["sent"] / total["sent_direct"],
        "money_saved": 1 - total["cost"] / total["cost_direct"],
        "cached": total["cached"] / total["sent"],
        "breaks_per_100": 100 * total["breaks"] / turns,
        "overflows": total["overflows"],
        "regret": total["regrets"] / turns,
        "line_regret": total["line_regrets"] / turns,
        "ids_lost": total["lost"] / (total["quoted"] or 1),
        "worst": worst.saved,
        "worst_session": worst.session.name,
        "losers_over_1": sum(outcome.saved < -0.01 for outcome in outcomes),
    }


_loaded: list[Session] = []
_count = a_counter()


def _load(paths: list[Path]) -> None:
    _loaded.extend(sessions(paths, _count))


def _job(job: tuple[int, Chosen, Prices | None, int, bool]) -> Outcome:
    index, (arriving, pruning, compacting), prices, window, breakpoints = job
    session = _loaded[index]
    return run(
        session,
        arriving,
        pruning,
        prices=prices,
        window=window,
        count=_count,
        breakpoints=breakpoints,
        compacting=compacting,
    )


def parts(outcomes: list[Outcome]) -> Iterable[tuple[str, list[Outcome]]]:
    """The groups that are reported, empty ones left out."""
    for size in ("long", "short"):
        group = [outcome for outcome in outcomes if (outcome.session.tokens >= LONG_TOKENS) == (size == "long")]
        for name, chosen in (
            (size, group),
            (f"{size}, tuned", [outcome for outcome in group if not outcome.session.held_out]),
            (f"{size}, held out", [outcome for outcome in group if outcome.session.held_out]),
        ):
            if chosen:
                yield name, chosen


HEADER = (
    f"{'policy':<28}{'prices':<11}{'sessions':<19}{'tokens':>7}{'money':>7}{'cached':>8}{'brk/100':>8}{'over':>5}"
    f"{'regret':>8}{'lines':>7}{'lose>1%':>8}  worst"
)


def row(policy: str, prices: str, part: str, found: dict) -> str:
    return (
        f"{policy:<28}{prices:<11}{part + ' (' + str(found['sessions']) + ')':<19}"
        f"{found['tokens_saved']:>7.1%}{found['money_saved']:>7.1%}{found['cached']:>8.1%}{found['breaks_per_100']:>8.1f}"
        f"{found['overflows']:>5}{found['regret']:>8.2%}{found['line_regret']:>7.2%}{found['losers_over_1']:>8}"
        f"  {found['worst']:+.1%} {found['worst_session']}"
    )


def plot(points: list[tuple[str, float, float]], width: int = 72, height: int = 18) -> str:
    """Money saved against regret, one letter a policy; up is more money, left is less regret."""
    most_regret = max((regret for _, _, regret in points), default=0.01) or 0.01
    most_money = max((money for _, money, _ in points), default=0.01) or 0.01
    grid = [[" "] * (width + 1) for _ in range(height + 1)]
    legend = []
    for number, (name, money, regret) in enumerate(points):
        letter = chr(ord("a") + number) if number < 26 else chr(ord("A") + number - 26)
        grid[height - round(height * max(0.0, money) / most_money)][round(width * regret / most_regret)] = letter
        legend.append(f"  {letter}  {money:>6.1%} money  {regret:>6.2%} regret  {name}")
    body = [f"{most_money * (height - line) / height:>6.0%} |{''.join(cells)}" for line, cells in enumerate(grid)]
    axis = f"       +{'-' * width}\n        0% regret{f'{most_regret:.1%}':>{width - 9}}"
    return "\n".join([*body, axis, *legend])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[DATA], help="session files and folders of them")
    parser.add_argument("--window", type=int, default=200_000)
    parser.add_argument(
        "--prices", nargs="*", choices=PRICES, default=["0.1/1.25"], help="price models; none named: all"
    )
    parser.add_argument("--minimum", type=int, default=0, help="tokens below which the cache takes nothing")
    parser.add_argument("--policies", nargs="*", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--curve", action="store_true", help="protection and kept identifiers varied, with a plot")
    parser.add_argument(
        "--breakpoints", action="store_true", help="a cache that finds entries only where an earlier call had ended"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = CURVE if given.curve else {name: POLICIES[name] for name in given.policies}
    rows = []
    _load(given.paths)
    with ProcessPoolExecutor(given.jobs, initializer=_load, initargs=(given.paths,)) as pool:
        for prices in given.prices or PRICES:
            for name, policy in chosen.items():
                print(f"{name}, {prices} …", file=sys.stderr, flush=True)
                ratios = PRICES[prices] and replace(PRICES[prices], minimum=given.minimum)
                jobs = [(index, policy, ratios, given.window, given.breakpoints) for index in range(len(_loaded))]
                outcomes = list(pool.map(_job, jobs, chunksize=4))
                rows += [(name, prices, part, summary(group)) for part, group in parts(outcomes)]
    if given.json:
        print(json.dumps([{"policy": n, "prices": p, "part": part, **found} for n, p, part, found in rows], indent=1))
        return 0
    print(HEADER)
    print("\n".join(row(*found) for found in rows))
    first = rows[0][1]
    points = [
        (name, f["money_saved"], f["regret"]) for name, prices, part, f in rows if (part, prices) == ("long", first)
    ]
    print("\n" + plot(points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
