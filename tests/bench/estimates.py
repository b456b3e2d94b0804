"""How far off the predicted input tokens are, on recorded sessions: `python tests/bench/estimates.py [--json]`.

Synthetic providers count the sessions with rules of their own, some of which we do not know: another tokenizer, more
tokens in code, an envelope of seven tokens more a message, a preamble that no request shows. Recorded ones are what real
providers said to pi, gjc, Claude Code, Codex CLI and OpenHands. The predictor is the product's: a `Scale`, the unified
formula, and what is learned, per provider and model. For a strange tokenizer the first ten calls are not scored.

`total`: error of the whole prediction, percent of the actual count. `growth`: error of what had to be predicted (the last
answer and the new messages), percent of the real growth.
"""

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from proxy.conversation.model import Message, ToolCall, ToolResult
from proxy.dialects.openai_chat.view import parse_message
from proxy.server.tokenizers import counter
from proxy.tokens.context import Last, Present, context_size
from proxy.tokens.estimate import Memo, Scale
from proxy.tokens.learn import NOTHING_LEARNED, Growth, Learned, Sample, is_usable, predict, predict_first, update

TRAJECTORIES = Path(__file__).parents[1] / "data" / "trajectories"
CODE = re.compile(r"[{}()\[\];=<>/\\_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call: everything before the answer, and what the provider says about both."""

    seen: tuple[Message, ...]
    answer: Message
    input_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Score:
    """Errors of one provider, in percent."""

    name: str
    total: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        return {
            "provider": self.name,
            "turns": len(self.total),
            "total_median": quantile(self.total, 0.5),
            "total_p95": quantile(self.total, 0.95),
            "total_max": max(self.total, default=0.0),
            "growth_median": quantile(self.growth, 0.5),
            "growth_p95": quantile(self.growth, 0.95),
            "first_median": quantile(self.first, 0.5),
            "inside_range": 100 * sum(self.inside) / max(1, len(self.inside)),
        }


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def sessions() -> Iterator[dict[str, Any]]:
    for path in sorted(TRAJECTORIES.glob("*.json.gz")):
        yield json.loads(gzip.decompress(path.read_bytes()))


def messages_of(session: dict[str, Any]) -> list[Message]:
    return [parse_message(json.dumps(message).encode()) for message in session["messages"]]


class Provider:
    """A provider that counts by `count`, adding its own envelope and a preamble."""

    def __init__(self, count: Callable[[str], int], *, envelope: int = 0, preamble: int = 0) -> None:
        self.scale = Scale(encoding="theirs", count=count, dialect="openai_chat", model="theirs", memo=Memo())
        self.envelope = envelope
        self.preamble = preamble

    def turns(self, session: dict[str, Any]) -> Iterator[Turn]:
        messages = messages_of(session)
        total = self.preamble + 3 + self.scale.count(tools_text(session))
        for index, message in enumerate(messages):
            weight = self.scale.weigh(message)
            if message.role == "assistant":
                calls = sum(isinstance(part, ToolCall) for part in message.parts)
                output = weight.total - 4 - 3 * calls
                yield Turn(seen=tuple(messages[:index]), answer=message, input_tokens=total, output_tokens=output)
            total += weight.total + self.envelope


def recorded(session: dict[str, Any]) -> Iterator[Turn]:
    messages = messages_of(session)
    for usage in session["recorded_usage"]:
        index = usage["message_index"]
        if usage["input"] and messages[index].role == "assistant":
            yield Turn(
                seen=tuple(messages[:index]),
                answer=messages[index],
                input_tokens=usage["input"],
                output_tokens=usage["output"] or 0,
            )


def tools_text(session: dict[str, Any]) -> str:
    tools = session.get("tools")
    return json.dumps(tools, separators=(",", ":"), ensure_ascii=False) if tools else ""


def evaluate(
    score: Score, state: Learned, scale: Scale, turns: Iterator[Turn], fixed: int, *, learn: bool, grace: int
) -> Learned:
    """Predict each turn of one session, score it, and learn from it."""
    before: Turn | None = None
    for turn in turns:
        ready = state.samples >= grace
        if before is None or turn.seen[: len(before.seen)] != before.seen:
            growth = Growth(scale.weigh_messages(turn.seen) + fixed + scale.overheads.request, len(turn.seen))
            predicted = predict_first(state, growth)
            if ready:
                score.first.append(percent(predicted.tokens, turn.input_tokens))
            sample = Sample(growth=growth, actual=turn.input_tokens, anchored=False)
        else:
            growth = new_since(before, turn, scale)
            predicted = predict(state, growth)
            last = Last(input_tokens=before.input_tokens, output_tokens=before.output_tokens)
            size = context_size(Present(system=0, tools=0, new=predicted.tokens), last)
            grown = turn.input_tokens - before.input_tokens
            actual = grown - before.output_tokens
            if ready:
                score.total.append(percent(size.total, turn.input_tokens))
                score.inside.append(predicted.low <= actual <= predicted.high)
                if grown > 0:
                    score.growth.append(percent(size.total - before.input_tokens, grown))
            sample = Sample(growth=growth, actual=actual, anchored=True, usable=usable(turn, before))
        if learn:
            state = update(state, sample)
        before = turn
    return state


def usable(turn: Turn, before: Turn) -> bool:
    # A reported input that shrinks though the history grew was edited by the client or the provider.
    possible = turn.input_tokens >= before.input_tokens
    return is_usable(complete=True, possible=possible, server_edits=False, media=False, edited=False)


def new_since(before: Turn, turn: Turn, scale: Scale) -> Growth:
    fresh = turn.seen[len(before.seen) + 1 :]
    calls = sum(isinstance(part, ToolCall) for part in before.answer.parts)
    envelope = scale.overheads.message + scale.overheads.call * calls
    results = sum(isinstance(part, ToolResult) for message in fresh for part in message.parts)
    return Growth(scale.weigh_messages(fresh) + envelope, len(fresh) + 1, results)


def percent(estimated: int, actual: int) -> float:
    return 100.0 * abs(estimated - actual) / actual


def denser_on_code(text: str) -> int:
    """o200k, and 30 % more where a tenth of the characters are signs."""
    tokens = counter("o200k_base")(text)
    return round(tokens * 1.3) if len(CODE.findall(text)) * 10 > len(text) else tokens


def providers() -> Iterator[tuple[str, Provider, bool]]:
    """Name, provider, and whether we know its tokenizer."""
    o200k, cl100k = counter("o200k_base"), counter("cl100k_base")
    yield "o200k, as we count", Provider(o200k), True
    yield "o200k, 7 more a message", Provider(o200k, envelope=7), True
    yield "o200k, preamble of 900", Provider(o200k, preamble=900), True
    yield "cl100k", Provider(cl100k), False
    yield "30 % denser everywhere", Provider(lambda text: round(1.3 * o200k(text))), False
    yield "30 % denser on code", Provider(denser_on_code), False
    yield "all: denser, 7 more, 900", Provider(denser_on_code, envelope=7, preamble=900), False


def run(*, learn: bool, every: int = 1) -> list[dict[str, Any]]:
    """One row for each provider; `every`: take each so manieth session only."""
    all_sessions = list(sessions())[::every]
    scale = Scale(
        encoding="o200k_base", count=counter("o200k_base"), dialect="openai_chat", model="ours", memo=Memo(10**6)
    )
    rows = []
    for name, provider, known in providers():
        score, state = Score(name), NOTHING_LEARNED
        for session in all_sessions:
            fixed = scale.count(tools_text(session))
            state = evaluate(score, state, scale, provider.turns(session), fixed, learn=learn, grace=0 if known else 10)
        rows.append(score.row())
    score, states = Score("recorded, real providers"), dict[str, Learned]()
    for session in all_sessions:
        model = session["model"]
        states[model] = evaluate(
            score,
            states.get(model, NOTHING_LEARNED),
            scale,
            recorded(session),
            scale.count(tools_text(session)),
            learn=learn,
            grace=0,
        )
    rows.append(score.row())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-learning", action="store_true")
    arguments = parser.parse_args()
    rows = run(learn=not arguments.no_learning)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    names = (
        "turns",
        "total_median",
        "total_p95",
        "total_max",
        "growth_median",
        "growth_p95",
        "first_median",
        "inside_range",
    )
    print(f"{'provider':28}" + "".join(f"{name:>14}" for name in names))
    for row in rows:
        print(f"{row['provider']:28}" + "".join(f"{row[name]:>14.3f}" for name in names))


if __name__ == "__main__":
    main()
