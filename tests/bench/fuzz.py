"""Feed the proxy what no client should send and no provider should answer, and check what it promises all the same.

    python -m tests.bench.fuzz [--inputs 100000] [--only bodies] [--seed 1] [--jobs 2]

bodies: no reader and no decision raises; without an edit the very same bytes; with edits every byte outside of the edited
messages; the same decisions give the same bytes again. streams: no reader raises, however the bytes are cut what is read
is the same, and the filter of events changes nothing. headers: what is refused is refused by name, what passes is passed
on unchanged and in order. sockets: the whole server, byte for byte on both sides. Figures: inputs, how many were read as
conversations, edited or refused, and the slowest. Exit code 1 when a law was broken; hypothesis shows the smallest input.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from proxy.conversation.recall import Recall
from proxy.dialects import DIALECTS, dialect_for
from proxy.errors import ProxyError
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import prepare
from proxy.exchange.receive import NO_MEMORY, Memory, receive
from proxy.exchange.settle import Circumstances, settle
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.server.tokenizers import counter
from proxy.tokens.estimate import Memo, Scale
from proxy.wire.body import loads
from proxy.wire.headers import check_request, content_length, to_client, to_upstream, wants_websocket
from proxy.wire.path import route
from proxy.wire.sse_filter import EventFilter
from tests.bench import hostile
from tests.bench.hostile import PATHS
from tests.bench.hostile_sockets import over_sockets

BY_NAME = {dialect.name: dialect for _, dialect in DIALECTS}
OFF = Policy(mode="off")
EAGER = Policy(
    prune=PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0, min_chars=40),
    arrive=ArrivePolicy(collapse=True, cap_share=0.05),
    window=20_000,
)
SHARES = {"bodies": 0.30, "streams": 0.40, "headers": 0.27, "sockets": 0.03}
AT_ONCE = 1000
"""Inputs of one hypothesis run; it remembers what it has tried, so that longer runs grow slow."""


@dataclass(slots=True)
class Figures:
    """What one kind of input came to."""

    kind: str
    inputs: int = 0
    came_to: Counter = field(default_factory=Counter)
    slowest_ms: float = 0.0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def timed(self, started: float) -> None:
        """Note how long one input took."""
        self.slowest_ms = max(self.slowest_ms, 1000 * (time.perf_counter() - started))

    def add(self, other: "Figures") -> None:
        """Take another run's figures in."""
        self.inputs += other.inputs
        self.came_to += other.came_to
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)
        self.failures += other.failures
        self.seconds += other.seconds


class Laws:
    """The promises, each as a function of one input; gives a word for what the input was taken for."""

    def __init__(self) -> None:
        self.recall = Recall(8 * 1024 * 1024)
        self.memo = Memo()

    def bodies(self, name: str, body: bytes) -> str:
        """A request's way to its upstream."""
        dialect = BY_NAME[name]
        received = receive(dialect, PATHS[name], {}, body, caller="me", recall=self.recall)
        if received is None:
            return "unread"
        model = received.conversation.model
        scale = Scale(
            encoding="o200k_base", count=counter("o200k_base"), dialect=name, model=str(model), memo=self.memo
        )
        assert prepare(received, NO_MEMORY, OFF, scale, now=1.0).body == body
        ready = prepare(received, NO_MEMORY, EAGER, scale, now=1.0)
        if not ready.sent_plan.edits:
            assert ready.body == body
            return "read"
        self._only_its_messages_changed(received, ready)
        past = Memory(line=ready.anchor, line_at=len(received.keys) - 1, plan=ready.plan)
        again = prepare(received, past, replace(EAGER, replay_only=True), scale, now=2.0)
        assert again.body == ready.body, "the same plan gives other bytes"
        return "edited"

    def _only_its_messages_changed(self, received, ready) -> None:
        before = received.view
        after = received.dialect.view(PATHS[received.dialect.name], {}, ready.body, Recall())
        assert after is not None, "the rewritten body cannot be read"
        assert len(after.spans) == len(before.spans)
        edited = {edit.at for edit in ready.sent_plan.edits}
        for key, old, new in zip(received.keys, before.spans, after.spans, strict=True):
            same = before.body[slice(*old)] == after.body[slice(*new)]
            assert same or key in edited, "a message without an edit was changed"
        assert _between(before) == _between(after), "bytes outside of the messages were changed"
        with suppress(ValueError, RecursionError):
            loads(before.body)
            loads(after.body)

    def streams(self, name: str, stream: bool, pieces: list[bytes]) -> str:
        """An answer's way through the reader."""
        dialect = BY_NAME[name]
        whole = b"".join(pieces)
        seen = [_observed(dialect, given_as, stream=stream) for given_as in (pieces, [whole])]
        assert seen[0] == seen[1], "cut otherwise, read otherwise"
        passes = EventFilter(lambda _: False)
        assert b"".join([*map(passes, filter(None, pieces)), passes(b"")]) == whole
        hides = EventFilter(dialect.is_usage_only)
        shown = b"".join([*map(hides, filter(None, pieces)), hides(b"")])
        assert hides.dropped or shown == whole
        settle(self._ready(name), seen[0], Circumstances(upstream="openai", status=200, overhead_ms=1.0))
        return seen[0].outcome

    def _ready(self, name):
        body = next(body for dialect, body in hostile.requests() if dialect == name)
        received = receive(BY_NAME[name], PATHS[name], {}, body, caller="me", recall=self.recall)
        scale = Scale(encoding="o200k_base", count=counter("o200k_base"), dialect=name, model="m", memo=self.memo)
        return prepare(received, NO_MEMORY, OFF, scale, now=1.0)

    def headers(self, words: list[tuple[str, str]], path: str) -> str:
        """Headers and a path at the door."""
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in words]
        name, body = hostile.requests()[len(words)]
        receive(BY_NAME[name], PATHS[name], {k.lower(): v for k, v in words}, body, caller="me", recall=self.recall)
        for kept in (to_upstream(raw), to_client(raw, status=200)):
            rest = iter(raw)
            assert all(header in rest for header in kept), "a header was changed or moved"
        try:
            dialect_for(route(path).rest_path)
            wants_websocket(check_request(raw))
        except ProxyError:
            return "refused"
        assert (content_length(raw) or 0) >= 0
        return "let through"


def _between(view) -> list[bytes]:
    edges = [0, *(edge for span in view.spans for edge in span), len(view.body)]
    return [view.body[start:end] for start, end in list(pairwise(edges))[::2]]


def _observed(dialect, pieces, *, stream):
    reader = dialect.reader(stream=stream, keep_text=True, keep_reasoning=True)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish(complete=True)


INPUTS = {
    "bodies": hostile.bodies(),
    "streams": hostile.streams(),
    "headers": st.tuples(
        hostile.headers,
        st.one_of(
            st.sampled_from(tuple(PATHS.values())),
            st.text(st.characters(max_codepoint=255), max_size=40).map(lambda text: "/" + text),
            st.lists(st.sampled_from(("up", "v1", "..", "%2e%2e", "openai", "%5c", "", "messages")), max_size=6).map(
                lambda steps: "/" + "/".join(steps)
            ),
        ),
    ),
}


def fuzzed(kind: str, inputs: int, number: int) -> Figures:
    """One run of hypothesis with so many inputs."""
    figures = Figures(kind)
    begun = time.perf_counter()
    if kind == "sockets":
        over_sockets(inputs, number, figures)
        figures.seconds = time.perf_counter() - begun
        return figures
    law = getattr(Laws(), kind)

    @seed(number)
    @settings(
        max_examples=-(-inputs // (1 if kind == "headers" else len(hostile.SHIFTS))),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(INPUTS[kind])
    def one(drawn):
        *what, last = drawn
        for one_of in [last] if kind == "headers" else last:
            started = time.perf_counter()
            figures.inputs += 1
            figures.came_to[law(*what, one_of)] += 1
            figures.timed(started)

    try:
        one()
    except Exception as error:
        lines = traceback.format_exception(error)
        figures.failures.append("".join(lines[-3:])[-2500:] + "".join(getattr(error, "__notes__", ()))[:1500])
    figures.seconds = time.perf_counter() - begun
    return figures


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--only", choices=SHARES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(words)


def main() -> int:
    options = arguments()
    kinds = [options.only] if options.only else list(SHARES)
    orders = []
    for kind in kinds:
        left = options.inputs if options.only else int(options.inputs * SHARES[kind] + 0.5)
        while left > 0:
            orders.append((kind, min(left, AT_ONCE), options.seed * 10_000 + len(orders)))
            left -= AT_ONCE
    total = {kind: Figures(kind) for kind in kinds}
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in pool.map(fuzzed, *zip(*orders, strict=True)):
            total[done.kind].add(done)
            inputs = sum(one.inputs for one in total.values())
            failed = sum(len(one.failures) for one in total.values())
            print(f"  {inputs:>7} inputs, {failed} failures, at {done.kind}", file=sys.stderr, flush=True)
    for one in total.values():
        what = ", ".join(f"{number} {word}" for word, number in one.came_to.most_common())
        print(
            f"{one.kind:<8} {one.inputs:>7} inputs  {len(one.failures):>3} failures  slowest {one.slowest_ms:7.1f} ms  "
            f"{one.seconds:6.0f} s  {what}"
        )
    for one in total.values():
        for text in one.failures:
            print(f"\n--- {one.kind}\n{text}")
    return 1 if any(one.failures for one in total.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
