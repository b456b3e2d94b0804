"""Hostile input over real sockets: raw requests to the whole server, scripted answers behind it."""

import asyncio
import re
import time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from proxy.server.assembly import assembled
from proxy.server.events import configure
from proxy.settings.values import Server, Settings, Store, Upstream
from tests.bench import hostile
from tests.bench.hostile import PATHS
from tests.serving import serving

_FAILED = re.compile(r"^pruning_proxy_failed_open_total\{[^}]*stage=\"([^\"]+)\"[^}]*\} ([0-9.]+)", re.MULTILINE)
_PATIENCE_S = 10.0
_FRAMING = ("content-length", "transfer-encoding", "host", "expect", "connection", "upgrade", "te", "trailer")

calls = st.tuples(
    hostile.bodies(),
    hostile.streams(),
    hostile.headers,
    st.integers(0, 9),
    hostile.cuts,
)


class Scripted:
    """The upstream: notes what came and answers as the next call's script says."""

    def __init__(self):
        self.came = None
        self.pieces, self.stream = [], True

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.came = body
        kind = b"text/event-stream" if self.stream else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def over_sockets(inputs: int, number: int, figures) -> None:
    """So many calls on one server; figures are added to."""
    configure(form="json", level="error")
    with asyncio.Runner() as runner:
        runner.run(_over_sockets(inputs, number, figures))


async def _over_sockets(inputs, number, figures):
    upstream = Scripted()
    async with serving(upstream) as behind:
        there = Upstream(base_url=behind, ask_usage=False, timeout_s=5.0)
        known = dict.fromkeys(("openai", "anthropic", "gemini"), there)
        # Observing, every decision is made and none is sent: all bytes must pass.
        chosen = Settings(mode="observe", upstreams=known, store=Store(url="memory://"), server=Server(max_body_mb=1))
        async with assembled(chosen) as app, serving(app) as front:
            port = int(front.rpartition(":")[2])
            loop = asyncio.get_running_loop()

            def law(drawn):
                return asyncio.run_coroutine_threadsafe(_called(port, upstream, drawn), loop).result(_PATIENCE_S)

            await asyncio.to_thread(_drawn, law, inputs, number, figures)
            page = await _spoken(port, b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    failed = {stage: float(count) for stage, count in _FAILED.findall(page.decode("latin-1")) if float(count)}
    if failed:
        figures.failures.append(f"stages of the proxy failed open: {failed}")


def _drawn(law, inputs, number, figures):
    @seed(number)
    @settings(
        max_examples=inputs,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(calls)
    def one(drawn):
        started = time.perf_counter()
        figures.inputs += 1
        figures.came_to[law(drawn)] += 1
        figures.timed(started)

    try:
        one()
    except BaseException as error:
        figures.failures.append(f"{error!r:.2000}\n" + "".join(getattr(error, "__notes__", ()))[:1500])


async def _called(port, upstream, drawn) -> str:
    (name, (body, *_)), (_, stream, (pieces, *_)), words, choice, cuts = drawn
    upstream.came, upstream.pieces, upstream.stream = None, pieces, stream
    framed = choice < 8
    # Framing that lies is tried apart: there no byte can be expected to arrive.
    lines = [(key, value) for key, value in words if not (framed and key.lower() in _FRAMING)]
    if framed:
        lines = [line for line in lines if not _breaks_line(line)]
    head = f"POST {PATHS[name]} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
    head += "".join(f"{key}: {value}\r\n" for key, value in lines)
    raw = head.encode("latin-1") + b"\r\n" + body
    if not framed:
        raw = hostile.mutated(raw[:2000], cuts) + raw[2000:]
    answer = await _spoken(port, raw, ends=not framed)
    status = int(answer[9:12]) if re.match(rb"HTTP/1\.1 \d{3}", answer) else 0
    assert status not in (500, 502, 503, 504), f"status {status}"
    if not framed:
        return f"broken: {status or 'closed'}"
    assert status, f"no answer: {answer[:80]!r}"
    if status != 200:
        assert 400 <= status < 500, f"status {status}"
        assert upstream.came is None, "refused, and yet sent"
        return f"refused: {status}"
    assert upstream.came == body, "the upstream got other bytes"
    assert _content(answer) == b"".join(pieces), "the client got other bytes"
    return "passed"


def _breaks_line(line) -> bool:
    key, value = line
    return (
        not key
        or bool(re.search(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]", key))
        or bool(re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value))
    )


async def _spoken(port, raw, *, ends=False) -> bytes:
    """Everything that is answered to these bytes. `ends`: nothing more will come, which a broken request needs."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        await writer.drain()
        if ends:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), _PATIENCE_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def _content(answer: bytes) -> bytes:
    """An answer's body, by its framing."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
        if not length:
            break
    return body
