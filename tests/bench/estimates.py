"""How far off the predicted input tokens are, on recorded sessions: `python tests/bench/estimates.py [--json]`.

Synthetic providers count the sessions by rules of their own (see tests.bench.talks), in each wire format; recorded ones are
what real providers said to pi, gjc, Claude Code, Codex CLI and OpenHands. The predictor is the product's, fed as the proxy
feeds it: the unified formula, and what is learned per provider and model. Where the tokenizer is not known, the first ten
calls are not scored, nor the first calls of the first twenty conversations. Counting: CPU time (see tests.bench.counting).

`total`: error of an anchored prediction, percent of the actual count. `growth`: the same error in percent of what had to be
predicted, the answer and the new messages. `early`: that of the whole within the first twelve calls of a session when nothing
was known before. `first`: error of a first call, for which there is no anchor. Each target stands
beside the worst figure among the rows that it is for. Exit code 1: a target is not met; 2: one could not be measured.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from proxy.conversation.edit import EMPTY_PLAN
from proxy.exchange.measure import formula_inputs, standing_tokens
from proxy.exchange.receive import NO_MEMORY, Memory, Received
from proxy.exchange.weigh import Weighed, weigh
from proxy.ledger.records import Anchor, Reply
from proxy.server.tokenizers import counter
from proxy.tokens.context import context_size
from proxy.tokens.estimate import Memo, Scale
from proxy.tokens.fit import Growth
from proxy.tokens.learn import NOTHING_LEARNED, Learned, Sample, is_usable, predict, update
from proxy.tokens.usage import Usage, is_possible
from tests.bench.counting import counted
from tests.bench.estimates_targets import counted_row, exit_code, shown, verdicts
from tests.bench.speakers import SPEAKERS
from tests.bench.talks import Bill, Call, Talk, providers, recorded_bills, remembering, talks

GRACE_CALLS = 10
GRACE_TALKS = 20
"""What is not scored where the tokenizer is unknown."""
EARLY_CALLS = 12


@dataclass(slots=True, kw_only=True)
class Score:
    """Errors at one provider in one wire format, in percent."""

    provider: str
    kind: str
    form: str
    state: dict[str, Learned] = field(default_factory=lambda: defaultdict(lambda: NOTHING_LEARNED))
    """What is known, by model."""
    talks: int = 0
    total: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    early: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The figures; None where nothing was measured."""
        return {
            "provider": self.provider,
            "kind": self.kind,
            "format": self.form,
            "calls": len(self.total),
            "first_calls": len(self.first),
            "total_median": quantile(self.total, 0.5),
            "total_p95": quantile(self.total, 0.95),
            "total_max": quantile(self.total, 1),
            "growth_median": quantile(self.growth, 0.5),
            "growth_p95": quantile(self.growth, 0.95),
            "early_p95": quantile(self.early, 0.95),
            "early_max": quantile(self.early, 1),
            "first_median": quantile(self.first, 0.5),
            "inside_range": 100 * sum(self.inside) / len(self.inside) if self.inside else None,
        }


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share of them lies; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def percent(estimated: int, actual: int, of: int) -> float:
    """The error without its sign."""
    return 100.0 * abs(estimated - actual) / of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call on the proxy's scale; the same for every provider."""

    call: Call
    received: Received
    weighed: Weighed


def asked(talk: Talk, scale: Scale) -> list[Asked]:
    """All calls of a talk."""
    requests = ((call, talk.received(call)) for call in talk.calls)
    return [Asked(call=call, received=one, weighed=weigh(one, scale)) for call, one in requests]


def evaluate(score: Score, talk: Talk, requests: list[Asked], bills: Sequence[Bill | None], scale: Scale) -> None:
    """Predict each call of one talk, score it, and learn from it."""
    memory, state = NO_MEMORY, score.state
    strange = score.kind == "unknown"
    for one, bill in zip(requests, bills, strict=True):
        if bill is None:
            continue
        known, (actual, output) = state[talk.model], bill
        tokens = standing_tokens(one.weighed, EMPTY_PLAN)
        inputs = formula_inputs(one.received, memory, one.weighed, EMPTY_PLAN, tokens, scale, known)
        size = context_size(inputs.present, inputs.last)
        grown = actual - size.total + size.new
        if memory.measured is None:
            if score.talks >= GRACE_TALKS or not strange:
                score.first.append(percent(size.total, actual, actual))
        elif known.samples >= GRACE_CALLS or not strange:
            _score(score, known, inputs.growth, error=size.total - actual, actual=actual, grown=grown)
            increase = actual - memory.measured.usage.input_tokens
            if increase > 0:
                score.growth.append(percent(size.total, actual, increase))
        usage = Usage(input_tokens=actual, output_tokens=output)
        anchored = memory.measured is not None
        state[talk.model] = update(
            known,
            Sample(
                growth=inputs.growth,
                actual=grown if anchored else actual,
                anchored=anchored,
                usable=is_usable(
                    complete=True,
                    possible=is_possible(usage, window=None, sent_estimate=size.total),
                    server_edits=False,
                    media=inputs.has_media,
                    edited=inputs.edited,
                ),
            ),
        )
        memory = remembered(one, usage, talk.model)
    score.talks += 1


def _score(score: Score, known: Learned, growth: Growth, *, error: int, actual: int, grown: int) -> None:
    score.total.append(percent(error, 0, actual))
    predicted = predict(known, growth)
    score.inside.append(predicted.low <= grown <= predicted.high)


def evaluate_early(score: Score, talk: Talk, requests: list[Asked], bills: Sequence[Bill | None], scale: Scale) -> None:
    """Score the first calls of a talk at a provider of which nothing is known."""
    fresh = Score(provider=score.provider, kind="known", form=score.form)
    evaluate(fresh, talk, requests[:EARLY_CALLS], bills[:EARLY_CALLS], scale)
    score.early += fresh.total


def remembered(one: Asked, usage: Usage, model: str) -> Memory:
    """What the ledger knows when the talk goes on."""
    anchor = Anchor(
        key=one.received.keys[-1] if one.received.keys else b"",
        session="",
        turn=1,
        at=0.0,
        upstream="",
        model=model,
        usage=usage,
        system_tokens=one.weighed.system,
        tools_tokens=one.weighed.tools,
        replies=(Reply(fingerprint=one.call.fingerprint),),
    )
    return Memory(line=anchor, line_at=one.call.start - 1, measured=anchor, measured_at=one.call.start - 1)


def run(*, forms: Iterable[str] = tuple(SPEAKERS), pattern: str = "*", every: int = 1) -> list[dict[str, Any]]:
    """One row for each provider and format; `every`: take each so manieth session only."""
    rows = []
    count = remembering(counter("o200k_base"))
    for form in forms:
        memo, theirs = Memo(10**9), Memo(10**9)
        synthetic = [(one, Score(provider=one.name, kind=one.kind, form=form)) for one in providers()]
        real = Score(provider="recorded, real providers", kind="recorded", form=form)
        for talk in talks(form, pattern, every):
            scale = Scale(
                encoding="o200k_base", count=count, dialect=talk.conversation.dialect, model=talk.model, memo=memo
            )
            requests = asked(talk, scale)
            for provider, score in synthetic:
                bills = provider.bills(talk, theirs)
                evaluate(score, talk, requests, bills, scale)
                evaluate_early(score, talk, requests, bills, scale)
            if talk.usage:
                evaluate(real, talk, requests, recorded_bills(talk), scale)
                evaluate_early(real, talk, requests, recorded_bills(talk), scale)
        rows += [score.row() for score in (*(score for _, score in synthetic), *([real] if form == "chat" else ()))]
    return rows


def main() -> int:
    """Print the figures and the verdicts; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="the figures for machines")
    parser.add_argument("--sessions", default="*", metavar="PATTERN", help="only those whose names match")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each so manieth session only")
    parser.add_argument("--formats", nargs="+", default=list(SPEAKERS), choices=list(SPEAKERS))
    parser.add_argument("--no-counting", action="store_true", help="leave out the speed of counting")
    options = parser.parse_args()
    rows = run(forms=options.formats, pattern=options.sessions, every=options.every)
    if not any(row["calls"] or row["first_calls"] for row in rows):
        print(f"nothing measured: no recorded session matches {options.sessions!r}", file=sys.stderr)
        return 2
    if not options.no_counting:
        rows += map(counted_row, counted())
    found = verdicts(rows)
    if options.json:
        print(json.dumps({"rows": rows, "targets": [one.as_json() for one in found]}, indent=1))
    else:
        print(*shown(rows, found), sep="\n")
    return exit_code(found)


if __name__ == "__main__":
    sys.exit(main())
