"""Mixed load on one proxy process for a long time: does memory stay flat, and does every call give back what it took?

    python -m tests.bench.soak [--minutes 30] [--streams 200] [--store sqlite|memory|redis://…]

Clients keep `--streams` calls open at the same time: growing agent conversations in two wire formats with results that
are pruned, which begin anew after some turns; unread calls; broken bodies; refusals; answers that are cut; clients that hang up
in the middle. Every ten seconds the process is looked at from outside: resident memory, open files, threads, sockets, and
its own count of open calls. At the end the load stops, and what is still open then has leaked. The slope of memory is fitted
over the last two thirds, in which caches fill up that are bounded, and over the last half, when they are full. The provider
is a process of its own.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import uvicorn

from tests.cases.replay import proxy_process
from tests.journeys.replicas import toml_for

PAUSE_S = 0.4
"""Between two events: a call takes five seconds, so that the client's own speed does not decide how many are open."""
EVENTS = 12
KEEP_S = 60
"""How long the provider keeps an idle connection: as load balancers do."""
IDLE_S = KEEP_S + 3
TURNS = 25
GENTLE = 'policy = "always"\nprotect_tokens = 1000\nminimum_tokens = 500'


async def upstream(scope, receive, send):
    """A provider in a few lines: chat and Messages streams of EVENTS events, a refusal or a cut where the client asks for one."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if message["type"] == "http.disconnect":
            return
    wish = dict(scope["headers"]).get(b"x-wish", b"")
    if wish == b"refuse":
        await _whole(send, 429, b'{"error":{"message":"slow down","type":"rate_limit_error"}}')
    elif scope["method"] == "GET":
        await _whole(send, 200, b'{"object":"list","data":[]}')
    else:
        speak = _messages if scope["path"].endswith("/messages") else _chat
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for number, event in enumerate(speak(size // 4)):
            if wish == b"cut" and number == EVENTS // 2:
                raise ConnectionError("cut, as asked for")
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(PAUSE_S)
        await send({"type": "http.response.body", "body": b""})


async def _whole(send, status, body):
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _chat(tokens):
    for _ in range(EVENTS):
        yield b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
    yield b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    yield b'data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":12}}\n\ndata: [DONE]\n\n' % tokens


def _messages(tokens):
    usage = b'{"input_tokens":%d,"output_tokens":1}' % tokens
    yield b'event: message_start\ndata: {"type":"message_start","message":{"role":"assistant","usage":%s}}\n\n' % usage
    block = b'"index":0,"content_block":{"type":"text","text":""}'
    yield b'event: content_block_start\ndata: {"type":"content_block_start",%s}\n\n' % block
    for _ in range(EVENTS):
        delta = b'"index":0,"delta":{"type":"text_delta","text":"word "}'
        yield b'event: content_block_delta\ndata: {"type":"content_block_delta",%s}\n\n' % delta
    end = b'"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}'
    yield b'event: message_delta\ndata: {"type":"message_delta",%s}\n\n' % end
    yield b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def _provide(port):
    config = uvicorn.Config(
        upstream, host="127.0.0.1", log_level="critical", access_log=False, timeout_keep_alive=KEEP_S
    )
    server = uvicorn.Server(config)

    async def told():
        running = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port.value = server.servers[0].sockets[0].getsockname()[1]
        await running

    config.port = 0
    asyncio.run(told())


@asynccontextmanager
async def a_provider():
    """The provider in a process of its own; gives its base URL."""
    port = multiprocessing.Value("i", 0)
    process = multiprocessing.Process(target=_provide, args=(port,), daemon=True)
    process.start()
    while not port.value:
        await asyncio.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port.value}"
    finally:
        process.kill()
        process.join()


class Agent:
    """One client: a conversation that grows, ends, and begins anew; now and then something else."""

    def __init__(self, number, url, http, outcomes):
        self.random = random.Random(number)
        self.number, self.url, self.http, self.outcomes = number, url, http, outcomes
        self.speaks_chat = number % 2 == 0
        self.history, self.conversations = [], 0

    async def run(self, until):
        """Call after call."""
        while time.monotonic() < until:
            try:
                self.outcomes[await self._one()] += 1
            except httpx.HTTPError as error:
                self.outcomes[f"FAILED {type(error).__name__}"] += 1

    async def _one(self):
        match self.random.random():
            case chance if chance < 0.03:
                return "unread " + str((await self.http.get(f"{self.url}/v1/models")).status_code)
            case chance if chance < 0.06:
                broken = self._body()[: -self.random.randrange(2, 200)]
                return await self._call(broken, "", "broken body")
            case chance if chance < 0.09:
                return await self._call(self._body(), "refuse", "refused")
            case chance if chance < 0.12:
                return await self._cut()
            case chance if chance < 0.17:
                return await self._hang_up()
        said = await self._call(self._body(), "", "turn")
        self._grow()
        return said

    async def _call(self, body, wish, word):
        async with self._stream(body, wish) as answer:
            await answer.aread()
        return f"{word} {answer.status_code}"

    async def _cut(self):
        try:
            await self._call(self._body(), "cut", "cut")
        except httpx.RemoteProtocolError:
            return "cut, as asked for"
        return "FAILED to be cut"

    async def _hang_up(self):
        async with self._stream(self._body(), "") as answer:
            async for _ in answer.aiter_raw():
                break
        return "hung up"

    def _stream(self, body, wish):
        path = "/v1/chat/completions" if self.speaks_chat else "/v1/messages"
        headers = {"authorization": f"Bearer {self.number}", "x-wish": wish, "content-type": "application/json"}
        return self.http.stream("POST", self.url + path, content=body, headers=headers)

    def _body(self):
        if not self.history:
            self.conversations += 1
            self.history = [{"role": "user", "content": f"Task {self.conversations} of agent {self.number}."}]
        body = {
            "model": "gpt-4o" if self.speaks_chat else "claude-sonnet-4-5",
            "messages": self.history,
            "stream": True,
        }
        return json.dumps(body if self.speaks_chat else body | {"max_tokens": 500}).encode()

    def _grow(self):
        name = f"call_{len(self.history)}"
        result = f"{self.conversations} {self.number} {name} " + f"line {self.random.random()} of a file\n" * 60
        if self.speaks_chat:
            call = {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}}
            self.history += [
                {"role": "assistant", "content": "word " * EVENTS, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": name, "content": result},
            ]
        else:
            call = {"type": "tool_use", "id": name, "name": "read", "input": {}}
            shown = {"type": "tool_result", "tool_use_id": name, "content": result}
            said = {"type": "text", "text": "word " * EVENTS}
            self.history += [{"role": "assistant", "content": [said, call]}, {"role": "user", "content": [shown]}]
        if len(self.history) > 2 * TURNS:
            self.history = []


def looked_at(pid):
    """The process from outside: MB resident, open files, of them sockets, threads."""
    status = Path(f"/proc/{pid}/status").read_text()
    number = lambda name: int(status.split(name + ":")[1].split()[0])
    targets = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(file.readlink()))
        except OSError:
            continue
    sockets = sum(target.startswith("socket:") for target in targets)
    return number("VmRSS") / 1024, len(targets), sockets, number("Threads")


async def open_calls(http, url):
    page = (await http.get(f"{url}/metrics")).text
    return int(float(page.split("\npruning_proxy_open_calls ")[1].split()[0]))


def slope(points):
    """MB per minute, by least squares over (seconds, MB)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return 60 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def drawn(points, width=60, height=10):
    """Memory over time, in characters: a column is the mean of its stretch of time, the lowest row is 0."""
    last, top = points[-1][0], max(mb for _, mb in points)
    stretches = [[] for _ in range(width)]
    for seconds, mb in points:
        stretches[min(width - 1, int(width * seconds / last))].append(mb)
    columns, rows = [], []
    for stretch in stretches:
        # Nobody looked in this one: as it was before.
        columns.append(sum(stretch) / len(stretch) if stretch else columns[-1] if columns else 0.0)
    for row in range(height, 0, -1):
        marks = "".join("█" if mb > top * (row - 0.5) / height else " " for mb in columns)
        rows.append(f"{top * row / height:5.0f} MB │{marks.rstrip()}")
    return "\n".join([*rows, f"         └{'─' * width} {last / 60:.0f} min"])


async def soak(options):
    """The run; gives its figures."""
    outcomes, points, opened, began = Counter(), [], [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pruning-proxy-soak-") as folder:
        store = {"sqlite": f"sqlite://{folder}/state.db", "memory": "memory://"}.get(options.store, options.store)
        async with (
            a_provider() as behind,
            proxy_process(toml_for(behind, store, GENTLE), Path(folder)) as proxy,
            httpx.AsyncClient(timeout=60, trust_env=False) as looking,
        ):
            url = f"http://127.0.0.1:{proxy.port}"
            idle = looked_at(proxy._pid)
            async with AsyncExitStack() as stack:
                until = began + options.minutes * 60
                agents = []
                for number in range(options.streams):
                    # One each, as agents have: a pool that all share takes 15 ms of the client's CPU a call.
                    http = httpx.AsyncClient(timeout=60, verify=False, trust_env=False)
                    agents.append(Agent(number, url, await stack.enter_async_context(http), outcomes))
                running = [asyncio.ensure_future(agent.run(until)) for agent in agents]
                while (left := until - time.monotonic()) > 0:
                    await asyncio.sleep(min(options.every, left))
                    seen, calls = looked_at(proxy._pid), await open_calls(looking, url)
                    points.append((time.monotonic() - began, seen[0]))
                    opened.append(calls)
                    print(
                        f"  {points[-1][0]:6.0f} s  {seen[0]:7.1f} MB  {seen[1]} files ({seen[2]} sockets)  {seen[3]} threads  "
                        f"{calls} open calls  {sum(outcomes.values())} done",
                        file=sys.stderr,
                        flush=True,
                    )
                await asyncio.gather(*running)
            # Until connections that are kept for later calls have been idle for too long.
            await asyncio.sleep(IDLE_S)
            calls, seen = await open_calls(looking, url), looked_at(proxy._pid)
            events = [json.loads(line) for line in proxy.log().splitlines() if line.startswith("{")]
    filling, full = ([point for point in points if point[0] >= points[-1][0] * part] for part in (1 / 3, 1 / 2))
    return {
        "plot": "\n" + drawn(points),
        "minutes": options.minutes,
        "streams": options.streams,
        "calls": sum(outcomes.values()),
        "outcomes": dict(outcomes),
        "open_calls_median": sorted(opened)[len(opened) // 2],
        "idle_mb": round(idle[0], 1),
        "peak_mb": round(max(mb for _, mb in points), 1),
        "end_mb": round(seen[0], 1),
        "slope_mb_per_min": round(slope(filling), 2),
        "slope_last_half": round(slope(full), 2),
        "half_mb": round(full[0][1], 1),
        "last_mb": round(full[-1][1], 1),
        "files_idle": idle[1],
        "files_end": seen[1],
        "sockets_end": seen[2],
        "threads_end": seen[3],
        "open_calls_end": calls,
        "errors_logged": dict(
            Counter(event["error_type"] for event in events if event.get("outcome") == "error").most_common()
        ),
        "upstream_failed": dict(Counter(event["reason"] for event in events if event["event"] == "upstream_failed")),
        "failed_open": sum(bool(event.get("failed_open")) or event["event"] == "failed_open" for event in events),
        "unexpected": sum(event["event"] == "call_failed" for event in events),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--every", type=float, default=10)
    found = asyncio.run(soak(parser.parse_args()))
    for name, value in found.items():
        print(f"{name:<18} {value}")
    failed = any(word.startswith("FAILED") for word in found["outcomes"])
    return 1 if failed or found["open_calls_end"] or found["unexpected"] else 0


if __name__ == "__main__":
    sys.exit(main())
