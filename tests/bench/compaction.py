"""Play recorded sessions through the proxy against a provider whose window is too small for them.

    python -m tests.bench.compaction [FOLDER] [--dialect chat] [--window 32768] [--unknown] [--jobs 2] [--json]

Checked: no overflow reaches the client; no request above the window leaves the proxy, but for the one that teaches it an
unknown window (and, at first, how the provider counts); every answer is the recorded one. Measured: turns that waited
for a summary, summaries and what became of them, tokens, money with the summary calls in it (in units of an uncached
token), both beside what the same session costs where the window is large enough, and regret: the share of turns that
quote an identifier which the client's history holds and the body that was sent does not.

A summary call's answer comes `--lag` turns late, as a model's would; nobody who waits is kept longer than that.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
from structlog.testing import capture_logs

from proxy.compaction.prompt import INSTRUCTION
from proxy.demo.play import error_text
from proxy.demo.provider import Provider, recorded
from proxy.demo.provider.apis import row_for, rows
from proxy.demo.provider.asked import Bill, Request, chain
from proxy.demo.serving import serving
from proxy.demo.sessions import Session, load
from proxy.exchange.quoting import quotable
from proxy.server.assembly import assembled
from proxy.server.summarizer import Summarizer
from proxy.server.tokenizers import counter
from proxy.settings.load import load as load_settings
from proxy.wire.body import dumps, loads
from proxy.wire.sse import EventSplitter
from tests.bench.speakers import SPEAKERS, Spoken

DATA = Path(__file__).parents[1] / "data" / "trajectories"
UPSTREAMS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}
_MARK = dumps(INSTRUCTION)[-60:-1]
_LATE_S = 0.5
_AT_ONCE_S = 0.1


@dataclass(slots=True, kw_only=True)
class Result:
    """What one session came to."""

    session: str
    turns: int = 0
    failed: list[str] = field(default_factory=list)
    """Turns in which the client saw an error, or another answer than the recorded one."""
    above: int = 0
    """Requests above the window that reached the provider."""
    taught: int = 0
    """Of them, those before the window was known."""
    compacted: int = 0
    """Turns whose request held a summary."""
    waited: int = 0
    """Turns that waited for a summary."""
    longest_s: float = 0.0
    """Of the turns' overheads, waiting included."""
    summaries: Counter = field(default_factory=Counter)
    """Summaries by what became of them."""
    canaries: list[float] = field(default_factory=list)
    """Share of pinned names that each accepted summary kept."""
    input: int = 0
    input_large: int = 0
    """Tokens sent, and what would have been sent to a provider with a larger window."""
    paid: float = 0.0
    paid_summaries: float = 0.0
    paid_large: float = 0.0
    regrets: int = 0
    lost: int = 0
    quoted: int = 0
    seconds: float = 0.0

    @property
    def faults(self) -> int:
        return len(self.failed) + self.above - self.taught


class Held:
    """The provider, slow with summaries: an answer to a summary call waits until the client is some turns further."""

    def __init__(self, provider: Provider, lag: int) -> None:
        self._provider = provider
        self._lag = lag
        self.turn = 0
        self.passed = asyncio.Condition()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http" or not self._lag:
            await self._provider(scope, receive, send)
            return
        messages = []
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
        if _MARK in b"".join(message.get("body", b"") for message in messages):
            await self._wait(self.turn + self._lag)

        async def again():
            return messages.pop(0) if messages else await receive()

        await self._provider(scope, again, send)

    async def _wait(self, turn: int) -> None:
        try:
            async with asyncio.timeout(_LATE_S), self.passed:
                await self.passed.wait_for(lambda: self.turn >= turn)
        except TimeoutError:
            pass

    async def next_turn(self) -> None:
        async with self.passed:
            self.turn += 1
            self.passed.notify_all()


class Large:
    """What a session's turns cost at a provider whose window is large enough."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._rows = rows()

    def bill(self, path: str, body: bytes, headers: dict) -> tuple[Bill, str]:
        """Its bill, and the text that it answers."""
        found = row_for(self._rows, path.partition("?")[0])
        assert found is not None
        row, arguments = found
        arguments = arguments | {"endpoint": row.verb}
        request = Request(body=loads(body), headers={}, arguments=arguments, rules=self._provider.rules)
        asked = row.api.asked(request)
        sizes = self._provider.tokens(asked.units)
        total = sum(sizes) + row.api.envelope.request + self._provider.hidden_tokens
        read, written = self._provider._cached(asked, chain(asked.units), sizes, time.time())
        answer = self._provider._answers(asked, headers)
        return Bill(input=total, read=read, written=written, output=0, reasoning=0), answer.text


class Sight:
    """Identifiers that a growing history holds, and those that a sent body holds."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self._seen = 0

    def grows(self, messages: list) -> None:
        for message in messages[self._seen :]:
            self.said |= words_of(message)
        self._seen = len(messages)

    def lost(self, answer: dict, sent: bytes) -> tuple[int, int]:
        quoted = words_of(answer) & self.said
        held = sent.decode()
        return len(quoted), sum(word not in held and word.replace("\\", "\\\\") not in held for word in quoted)


def words_of(message: dict) -> frozenset[str]:
    texts = [message.get("content") or ""]
    texts += [call["function"]["arguments"].replace("\\n", "\n") for call in message.get("tool_calls") or ()]
    return frozenset().union(*(quotable(text) for text in texts if isinstance(text, str)))


class Bench:
    """One proxy between one client and one provider."""

    def __init__(self, options: argparse.Namespace, sessions: list[Session]) -> None:
        self.options = options
        self.sessions = sessions
        self.speaker = SPEAKERS[options.dialect]
        answers = recorded({session.name: session.messages for session in sessions})
        rest = {
            "answers": answers,
            "hidden_tokens": options.hidden,
            "piece_chars": 4000,
            "cache_granularity": 1 if options.dialect == "messages" else 128,
        }
        self.provider = Provider(counter(options.vocabulary), window=options.window, **rest)
        self.held = Held(self.provider, options.lag)
        self.large = Large(Provider(counter(options.vocabulary), window=10**9, **rest))
        self.events: list[dict] = []
        self.waits = 0

    async def run(self) -> list[Result]:
        with capture_logs() as self.events, self._counting_waits():
            return await self._run()

    async def _run(self) -> list[Result]:
        results = []
        with tempfile.TemporaryDirectory(prefix="pruning-proxy-bench-") as folder:
            for number, session in enumerate(self.sessions):
                async with AsyncExitStack() as stack:
                    url = await stack.enter_async_context(serving(self.held))
                    settings = self._settings(f"sqlite://{folder}/state-{number}.db", url)
                    proxy = await stack.enter_async_context(
                        serving(await stack.enter_async_context(assembled(settings)))
                    )
                    client = await stack.enter_async_context(
                        httpx.AsyncClient(
                            base_url=proxy,
                            timeout=60.0,
                            trust_env=False,
                            headers={"content-type": "application/json", "authorization": "Bearer bench"},
                        )
                    )
                    results.append(await self._play(session, client))
                result = results[-1]
                print(f"  {session.name}: {result.turns} turns, {result.seconds:.1f} s", file=sys.stderr, flush=True)
        return results

    @contextmanager
    def _counting_waits(self) -> Iterator[None]:
        bench, now = self, Summarizer.now

        async def counted(summarizer, *arguments, **named):
            began = time.perf_counter()
            try:
                return await now(summarizer, *arguments, **named)
            finally:
                # A record that needs no model is there at once.
                bench.waits += time.perf_counter() - began > _AT_ONCE_S

        Summarizer.now = counted
        try:
            yield
        finally:
            Summarizer.now = now

    def _settings(self, store: str, url: str):
        flags = {
            ("profile",): self.options.profile,
            ("store", "url"): store,
            ("upstreams", UPSTREAMS[self.options.dialect], "base_url"): url,
        }
        if not self.options.unknown:
            flags["models", "*", "window"] = self.options.window
        for pair in self.options.set:
            name, _, value = pair.partition("=")
            flags[tuple(name.split("."))] = value
        return load_settings(None, flags, {})

    async def _play(self, session: Session, client: httpx.AsyncClient) -> Result:
        result, sight = Result(session=session.name), Sight()
        self.events.clear()
        started = time.perf_counter()
        for number, (history, said) in enumerate(list(session.turns())[: self.options.turns]):
            messages = list(history)
            body = dumps(self.speaker.body(list(session.tools), messages))
            sight.grows(messages)
            headers = {"x-demo-session": session.name, "x-demo-turn": str(number)}
            bill, text = self.large.bill(self.speaker.path, body, headers)
            await self._turn(result, sight, client, headers, body, said | {"content": text})
            result.input_large += bill.input
            result.paid_large += self.provider.paid(bill)
            await self.held.next_turn()
        await asyncio.sleep(0.05)
        self._bill(result)
        self._compactions(result)
        result.seconds = time.perf_counter() - started
        return result

    async def _turn(
        self,
        result: Result,
        sight: Sight,
        client: httpx.AsyncClient,
        headers: dict,
        body: bytes,
        said: dict,
    ) -> None:
        waits, began = self.waits, time.perf_counter()
        number = result.turns
        answer = await client.post(self.speaker.path, content=body, headers=headers)
        result.longest_s = max(result.longest_s, time.perf_counter() - began)
        result.turns += 1
        result.waited += self.waits > waits
        result.compacted += answer.headers.get("x-context-compacted") == "1"
        heard = self._heard(answer)
        if heard is None:
            result.failed.append(f"turn {number}: {answer.status_code} {error_text(answer.content)[:100]}")
        elif heard.text != (said.get("content") or ""):
            result.failed.append(f"turn {number}: another answer: {heard.text[:60]!r}")
        sent = [one for one in self.provider.received if one.bill and _MARK not in one.body]
        if sent:
            quoted, lost = sight.lost(said, sent[-1].body)
            result.quoted += quoted
            result.lost += lost
            result.regrets += lost > 0
        self._bill(result)

    def _heard(self, answer: httpx.Response) -> Spoken | None:
        if answer.status_code != 200:
            return None
        events = [one.data for one in EventSplitter().feed(answer.content) if one.data not in (b"", b"[DONE]")]
        values = [loads(event) for event in events]
        return None if values[-1].get("type") == "response.failed" else self.speaker.spoken(values)

    def _bill(self, result: Result) -> None:
        running = []
        for one in self.provider.received:
            if one.status == 0:
                running.append(one)
            elif one.bill is None:
                result.above += 1
                result.taught += self.options.unknown and not any(
                    event["event"] == "window_learned" for event in self.events[:-2]
                )
            elif _MARK in one.body:
                result.paid_summaries += self.provider.paid(one.bill)
            else:
                result.input += one.bill.input
                result.paid += self.provider.paid(one.bill)
        self.provider.received[:] = running

    def _compactions(self, result: Result) -> None:
        result.taught = min(result.above, sum(event["event"] == "window_learned" for event in self.events))
        if not self.options.unknown:
            result.taught = 0
        for event in self.events:
            if event["event"] == "compacted":
                who = "model" if event["by_model"] else "record"
                result.summaries[f"{who} {'accepted' if event['accepted'] else event['reason']}"] += 1
                if event["accepted"] and event.get("canaries") is not None:
                    result.canaries.append(event["canaries"])
            elif event["event"] in ("summary_failed", "rescued", "not_rescued", "failed_open", "compaction_rests"):
                result.summaries[event["event"]] += 1


def work(options: argparse.Namespace, paths: list[Path]) -> list[Result]:
    return asyncio.run(Bench(options, [load(path) for path in paths]).run())


def play(options: argparse.Namespace) -> list[Result]:
    """Play a folder, the heavy sessions spread over the jobs."""
    paths = sorted(options.folder.glob(options.sessions + ".json.gz"), key=lambda path: -path.stat().st_size)
    shares = [paths[start :: options.jobs] for start in range(options.jobs)]
    if options.jobs == 1:
        return work(options, paths)
    with ProcessPoolExecutor(options.jobs) as pool:
        return [result for results in pool.map(work, [options] * len(shares), shares) for result in results]


def total_of(results: list[Result]) -> Result:
    """The sum over sessions."""
    total = Result(session="all")
    for result in results:
        for name, value in asdict(result).items():
            match value:
                case str():
                    pass
                case list():
                    getattr(total, name).extend(value)
                case dict():
                    getattr(total, name).update(getattr(result, name))
                case _ if name == "longest_s":
                    total.longest_s = max(total.longest_s, value)
                case _:
                    setattr(total, name, getattr(total, name) + value)
    return total


def line_of(result: Result) -> str:
    tokens = 100.0 - 100.0 * result.input / result.input_large if result.input_large else 0.0
    bill = result.paid + result.paid_summaries
    paid = 100.0 - 100.0 * bill / result.paid_large if result.paid_large else 0.0
    regret = 100.0 * result.regrets / result.turns if result.turns else 0.0
    kept = sum(result.canaries) / len(result.canaries) if result.canaries else 1.0
    what = " ".join(f"{number} {kind}" for kind, number in result.summaries.most_common())
    return (
        f"{result.session[:34]:<34} {result.turns:>5} {result.faults:>6} {result.above:>5} {result.compacted:>6} "
        f"{result.waited:>6} {result.longest_s:>6.2f} {tokens:>7.1f} {paid:>7.1f} {regret:>7.2f} {kept:>6.2f}  {what}"
    )


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sessions", default="*", help="pattern of session names")
    parser.add_argument("--dialect", choices=SPEAKERS, default="chat")
    parser.add_argument("--profile", choices=("gentle", "bold"), default="gentle")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting")
    parser.add_argument("--window", type=int, default=131_072)
    parser.add_argument("--unknown", action="store_true", help="the proxy is not told the window")
    parser.add_argument("--lag", type=int, default=1, help="turns until a summary call is answered")
    parser.add_argument("--vocabulary", default="cl100k_base", help="what the provider counts with")
    parser.add_argument("--hidden", type=int, default=350, help="tokens of the provider's invisible preamble")
    parser.add_argument("--turns", type=int, help="only the first so many turns of each session")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main() -> int:
    options = arguments()
    started = time.perf_counter()
    results = play(options)
    total = total_of(results)
    if options.json:
        print(json.dumps([{**asdict(result), "faults": result.faults} for result in [*results, total]]))
        return 1 if total.faults else 0
    print(f"{'session':<34} turns faults above compac waited  max s tokens%   paid% regret%   kept  what")
    for result in sorted(results, key=lambda result: -result.input_large):
        if result.compacted or result.faults or result.above:
            print(line_of(result))
    print(line_of(total))
    for result in results:
        for text in result.failed[:5]:
            print(f"  {result.session}: {text}")
    share = 100.0 * total.waited / total.turns if total.turns else 0.0
    print(f"waited: {share:.2f} % of turns; above the window: {total.above}, of which taught: {total.taught}; ", end="")
    print(f"{time.perf_counter() - started:.0f} s")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
