"""Replay recorded sessions turn by turn, through the real proxy and directly, and check what the proxy promises.

    python -m tests.bench.replay_all [FOLDER] [--dialect chat] [--profile bold] [--set prune.policy=always] [--json]

Checked in every session: no error that the direct run does not have; identical answers; once a message has gone out, the
same bytes go out on every later turn unless the log names a new decision; messages without an edit leave as they came,
and whole requests without an edit leave byte-identical. Measured: the error of anchored estimates, tokens, money (in
units of an uncached token) net of cache breaks. The loopback provider counts with another vocabulary than the proxy.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import httpx

from proxy.demo.outcome import rank
from proxy.demo.play import error_text
from proxy.demo.provider import Provider, Received, recorded
from proxy.demo.provider.asked import without_marks
from proxy.demo.serving import serving
from proxy.demo.sessions import Session, load
from proxy.ledger.records import Turn
from proxy.ledger.store import TurnQuery
from proxy.server.assembly import assembled
from proxy.server.events import configure
from proxy.server.tokenizers import counter
from proxy.settings.load import load as load_settings
from proxy.stores import open_store
from proxy.wire.body import array_spans, dumps, loads, object_spans
from proxy.wire.sse import EventSplitter
from tests.bench.speakers import SPEAKERS, Spoken

DATA = Path(__file__).parents[1] / "data" / "trajectories"
UPSTREAMS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}


@dataclass(slots=True, kw_only=True)
class Sent:
    """One turn's request as it reached the provider, in digests."""

    began: float
    ended: float
    """Unix time, as the client saw it."""
    messages: list[bytes]
    changed: int
    """Messages that differ from the client's; -1 where their number does (a summary stands in them)."""
    identical: bool


@dataclass(slots=True, kw_only=True)
class Result:
    """What one session came to."""

    session: str
    turns: int = 0
    own_errors: list[str] = field(default_factory=list)
    refused_direct: int = 0
    other_answers: int = 0
    broken_prefixes: int = 0
    stray_changes: int = 0
    missing_rows: int = 0
    failed_open: Counter = field(default_factory=Counter)
    errors: list[float] = field(default_factory=list)
    """Absolute, percent, anchored turns."""
    input_direct: int = 0
    input_pruned: int = 0
    paid_direct: float = 0.0
    paid_pruned: float = 0.0
    edits: Counter = field(default_factory=Counter)
    beyond: int = 0
    """Turns that only the proxy's run could go on with; their tokens and money are in no sum."""
    where: list[str] = field(default_factory=list)
    """The faults that only the log shows, one line each."""
    seconds: float = 0.0

    @property
    def faults(self) -> int:
        broken = self.other_answers + self.broken_prefixes + self.stray_changes + self.missing_rows
        return broken + len(self.own_errors) + sum(self.failed_open.values())


class Bench:
    """One proxy between one client and one provider, and a second provider for the direct run."""

    def __init__(self, options: argparse.Namespace, sessions: dict[str, Session]) -> None:
        self.options = options
        self.sessions = sessions
        self.speaker = SPEAKERS[options.dialect]
        self.rows: list[Turn] = []
        answers = recorded({name: session.messages for name, session in sessions.items()})
        self.direct, self.upstream = (
            Provider(
                counter(options.vocabulary),
                window=options.window,
                answers=answers,
                hidden_tokens=options.hidden,
                piece_chars=4000,
                cache_granularity=1 if options.dialect == "messages" else 128,
            )
            for _ in range(2)
        )

    async def run(self) -> list[Result]:
        with tempfile.TemporaryDirectory(prefix="pruning-proxy-bench-") as folder:
            store = f"sqlite://{folder}/state.db"
            played = []
            async with AsyncExitStack() as stack:
                url = await stack.enter_async_context(serving(self.upstream))
                app = await stack.enter_async_context(assembled(self._settings(store, url)))
                proxy = await stack.enter_async_context(serving(app))
                clients = (
                    await stack.enter_async_context(_client("http://direct", httpx.ASGITransport(self.direct))),
                    await stack.enter_async_context(_client(proxy, None)),
                )
                for session in self.sessions.values():
                    played.append(await self._play(session, clients))
                    print(f"  {session.name}: {played[-1][0].seconds:.1f} s", file=sys.stderr, flush=True)
            ledger = open_store(store, ttl_s=3600.0, clock=time.time)
            self.rows = [row for row in await ledger.turns(TurnQuery(limit=1_000_000)) if row.purpose != "summary"]
            self.rows.sort(key=lambda row: row.at)
            await ledger.close()
        for result, sent in played:
            self._judge(result, sent)
        return [result for result, _ in played]

    def _settings(self, store: str, url: str):
        flags = {
            ("profile",): self.options.profile,
            ("store", "url"): store,
            ("upstreams", UPSTREAMS[self.options.dialect], "base_url"): url,
            ("models", "*", "window"): self.options.window,
        }
        for pair in self.options.set:
            name, _, value = pair.partition("=")
            flags[tuple(name.split("."))] = value
        return load_settings(None, flags, {})

    async def _play(self, session: Session, clients: tuple) -> tuple[Result, list[Sent]]:
        result, sent = Result(session=session.name), []
        started = time.perf_counter()
        for number, (history, _) in enumerate(list(session.turns())[: self.options.turns]):
            body = dumps(self.speaker.body(list(session.tools), list(history)))
            # A caller of its own: sessions that begin alike must not be taken for forks of each other.
            headers = {"x-demo-session": session.name, "x-demo-turn": str(number), "authorization": session.name}
            there, said = await self._ask(clients[0], body, headers)
            began = time.time()
            answer, heard = await self._ask(clients[1], body, headers)
            ended = time.time()
            self._compare(result, number, (there, said), (answer, heard))
            sent += self._sent(body, heard, session.name, (began, ended))
            result.beyond += said is None and heard is not None
            for provider, name in ((self.direct, "direct"), (self.upstream, "pruned")):
                _add_bills(result, provider, name, counts=said is not None)
        result.seconds = time.perf_counter() - started
        return result, sent

    async def _ask(self, client: httpx.AsyncClient, body: bytes, headers: dict) -> tuple[httpx.Response, Spoken | None]:
        answer = await client.post(self.speaker.path, content=body, headers=headers)
        if answer.status_code != 200:
            return answer, None
        splitter = EventSplitter()
        events = [event.data for event in splitter.feed(answer.content) if event.data not in (b"", b"[DONE]")]
        values = [loads(event) for event in events]
        if values[-1].get("type") == "response.failed":
            return answer, None
        return answer, self.speaker.spoken(values)

    def _compare(self, result: Result, number: int, direct: tuple, pruned: tuple) -> None:
        (_, said), (answer, heard) = direct, pruned
        result.turns += 1
        result.refused_direct += said is None
        if heard is None and said is not None:
            result.own_errors.append(f"turn {number}: {answer.status_code} {error_text(answer.content)[:120]}")
        if said and heard and (said.text, said.calls) != (heard.text, heard.calls):
            result.other_answers += 1
        if heard and answer.headers.get("x-context-basis") == "anchored":
            estimated = int(answer.headers["x-context-estimated-input-tokens"])
            result.errors.append(abs(100.0 * (estimated - heard.input_tokens) / heard.input_tokens))

    def _sent(self, body: bytes, heard: Spoken | None, name: str, span: tuple[float, float]) -> list[Sent]:
        records = [
            one
            for one in self.upstream.received
            # Not a summary call, whose answer the client never heard; of retries the last.
            if one.headers.get("x-demo-session") == name and one.answer and heard and one.answer.text == heard.text
        ]
        if not records:
            return []
        ours, theirs = self._digests(records[-1].body), self._digests(body)
        changed = sum(a != b for a, b in zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else -1
        return [
            Sent(
                began=span[0],
                ended=span[1],
                messages=ours,
                changed=changed,
                identical=records[-1].body == body,
            )
        ]

    def _digests(self, body: bytes) -> list[bytes]:
        """One digest a message: over its bytes, for Messages over what is left without the moving cache marks."""
        start, end = object_spans(body)[self.speaker.history]
        raws = [body[first:last] for first, last in array_spans(body, start, end)]
        if self.options.dialect == "messages":
            raws = [dumps(without_marks(loads(raw))) for raw in raws]
        return [blake2b(raw, digest_size=16).digest() for raw in raws]

    def _judge(self, result: Result, sent: list[Sent]) -> None:
        """What needs the proxy's own log: whether a change had a decision behind it."""
        before: Sent | None = None
        for number, one in enumerate(sent):
            # By time: a history that ends with two assistant messages is the same turn of the log as the one before it.
            first = bisect_left(self.rows, one.began, key=lambda row: row.at)
            row = self.rows[first] if first < len(self.rows) and self.rows[first].at <= one.ended else None
            if row is None:
                result.missing_rows += 1
                result.where.append(f"turn {number}: no row in the log")
                continue
            result.edits.update(row.new_edits)
            result.failed_open.update([row.failed_open] if row.failed_open else [])
            if before is not None and one.messages[: len(before.messages)] != before.messages and not row.new_edits:
                result.broken_prefixes += 1
                result.where.append(f"turn {number}: prefix broken, edits {row.edits}")
            standing = sum(row.edits.values())
            if (not one.identical) if not standing else one.changed > standing:
                result.stray_changes += 1
                result.where.append(f"turn {number}: {one.changed} messages changed, edits {row.edits}")
            before = one


def _add_bills(result: Result, provider: Provider, name: str, *, counts: bool) -> None:
    for record in provider.received:
        if record.bill is not None and counts:
            setattr(result, f"input_{name}", getattr(result, f"input_{name}") + record.bill.input)
            setattr(result, f"paid_{name}", getattr(result, f"paid_{name}") + provider.paid(record.bill))
    provider.received[:] = _unanswered(provider.received)


def _unanswered(received: list[Received]) -> list[Received]:
    """Calls that run in the background (summaries) are billed when they end."""
    return [record for record in received if record.status == 0]


def _client(url: str, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    headers = {"content-type": "application/json"}
    return httpx.AsyncClient(base_url=url, transport=transport, timeout=60.0, trust_env=False, headers=headers)


def work(options: argparse.Namespace, paths: list[Path]) -> list[Result]:
    """Replay these sessions on one proxy."""
    configure(form="json", level="error")
    sessions = [load(path) for path in paths]
    return asyncio.run(Bench(options, {session.name: session for session in sessions}).run())


def replay(options: argparse.Namespace) -> list[Result]:
    """Replay a folder, the heavy sessions spread over the jobs."""
    paths = sorted(options.folder.glob(options.sessions + ".json.gz"), key=lambda path: -path.stat().st_size)
    shares = [paths[start :: options.jobs] for start in range(options.jobs)]
    if options.jobs == 1:
        return work(options, paths)
    with ProcessPoolExecutor(options.jobs) as pool:
        done = list(pool.map(work, [options] * len(shares), shares))
    return [result for results in done for result in results]


def total_of(results: list[Result]) -> Result:
    """The sum over sessions."""
    total = Result(session="all")
    for result in results:
        for name in ("own_errors", "errors", "where"):
            getattr(total, name).extend(getattr(result, name))
        for name in ("edits", "failed_open"):
            getattr(total, name).update(getattr(result, name))
        for name in (
            "turns",
            "refused_direct",
            "other_answers",
            "broken_prefixes",
            "stray_changes",
            "missing_rows",
            "beyond",
        ):
            setattr(total, name, getattr(total, name) + getattr(result, name))
        for name in ("input_direct", "input_pruned", "paid_direct", "paid_pruned", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(result, name))
    return total


def line_of(result: Result) -> str:
    errors = sorted(result.errors)
    shown = [f"{value:5.2f}" if (value := rank(errors, share)) is not None else "    -" for share in (0.5, 0.95, 1.0)]
    tokens = 100.0 - 100.0 * result.input_pruned / result.input_direct if result.input_direct else 0.0
    paid = 100.0 - 100.0 * result.paid_pruned / result.paid_direct if result.paid_direct else 0.0
    edits = " ".join(f"{number} {kind}" for kind, number in result.edits.most_common())
    return (
        f"{result.session[:36]:<36} {result.turns:>5} {result.faults:>6} {result.refused_direct:>7} "
        f"{' '.join(shown)} {tokens:>7.1f} {paid:>7.1f}  {edits}"
    )


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sessions", default="*", help="pattern of session names")
    parser.add_argument("--dialect", choices=SPEAKERS, default="chat")
    parser.add_argument("--profile", choices=("gentle", "bold"), default="gentle")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting of the proxy"
    )
    parser.add_argument("--window", type=int, default=200_000)
    parser.add_argument("--vocabulary", default="cl100k_base", help="what the provider counts with")
    parser.add_argument("--hidden", type=int, default=350, help="tokens of the provider's invisible preamble")
    parser.add_argument("--turns", type=int, help="only the first so many turns of each session")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def _as_json(result: Result) -> dict:
    # `asdict` would count a Counter's pairs, so both go in by themselves.
    values = asdict(replace(result, edits=Counter(), failed_open=Counter()))
    return {**values, "edits": dict(result.edits), "failed_open": dict(result.failed_open), "faults": result.faults}


def main() -> int:
    options = arguments()
    started = time.perf_counter()
    results = replay(options)
    total = total_of(results)
    if options.json:
        print(json.dumps([_as_json(result) for result in [*results, total]]))
    else:
        print(f"{'session':<36} {'turns':>5} {'faults':>6} {'refused':>7}  p50   p95   max  tokens%   paid%  edits")
        for result in sorted(results, key=lambda result: -result.input_direct):
            print(line_of(result))
        print(line_of(total))
        kinds = ("other_answers", "broken_prefixes", "stray_changes", "missing_rows", "failed_open")
        print("\nfaults:", {name: getattr(total, name) for name in kinds}, "own errors:", len(total.own_errors))
        for result in results:
            for text in (*result.own_errors, *result.where)[:5]:
                print(f"  {result.session}: {text}")
        print(f"{time.perf_counter() - started:.0f} s")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
