"""Run a case: a scripted upstream on one side, a raw client on the other, the proxy as a process of its own between."""

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cases import caselib
from tests.cases.configuration import toml_for

Pair = tuple[str, str]
_LIMIT = 2**26
_ROOT = Path(__file__).parents[2]
_FIELDS = {
    "input_total": "input_tokens",
    "cache_read": "cached_tokens",
    "cache_write": "cache_write_tokens",
    "output_total": "output_tokens",
    "reasoning": "reasoning_tokens",
    "estimated_input": "estimated",
}
"""Case's word → field of the `context_estimate` event."""


async def failures(path: Path, directory: Path) -> list[str]:
    """Run one case; gives what was not as expected. `directory` takes the configuration and the log."""
    case = caselib.load(path)
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, limit=_LIMIT)
    bad: list[str] = []
    before: list[Any] = []
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with proxy_process(toml_for(case, url), directory) as proxy:
            for number, step in enumerate(case["steps"]):
                seen = await _run_step(step, upstream, proxy)
                bad += [f"step {number}: {text}" for text in caselib.check(case, step, seen, before)]
                before.append(_json_of_last(upstream.seen))
    return bad


async def _run_step(step: dict[str, Any], upstream: "Upstream", proxy: "Proxy") -> dict[str, Any]:
    upstream.start(step)
    memory_before = proxy.memory_mb("VmRSS")
    proxy.forget_peak()
    proxy.mark()
    client = await send(step, proxy.port, upstream)
    seen: dict[str, Any] = {"upstream": list(upstream.seen)}
    if client is not None:
        seen["client"] = client
    if "record" in step["expect"]:
        seen["record"] = await proxy.record() or {}
    seen["log"] = proxy.log()
    seen["growth_mb"] = proxy.memory_mb("VmHWM") - memory_before
    return seen


def _json_of_last(seen: list[dict[str, Any]]) -> Any:
    try:
        return json.loads(seen[-1]["body"])
    except (ValueError, IndexError, RecursionError):
        return {}


class Proxy:
    """The running proxy process, seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.port = port
        self._pid = process.pid
        self._log = log
        self._mark = 0

    def mark(self) -> None:
        self._mark = self._log.stat().st_size

    def log(self) -> str:
        return self._log.read_bytes()[self._mark :].decode()

    async def record(self, patience_s: float = 3.0) -> dict[str, Any] | None:
        """The usage record of the call since `mark`, in the case's words; None when none is written in time."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            for line in self.log().splitlines():
                event = json.loads(line) if line.startswith("{") else {}
                if event.get("event") == "context_estimate":
                    return event | {word: event.get(field) for word, field in _FIELDS.items()}
            await asyncio.sleep(0.02)
        return None

    def forget_peak(self) -> None:
        """Let VmHWM begin anew, so that it does not speak of the start."""
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    def memory_mb(self, field: str) -> float:
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.split(field + ":")[1].split()[0]) / 1024


@asynccontextmanager
async def proxy_process(toml: str, directory: Path) -> AsyncIterator[Proxy]:
    """A proxy with this configuration, as a user starts it, on a free port; its log goes to a file."""
    config, log = directory / "proxy.toml", directory / "proxy.log"
    config.write_text(toml)
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("proxy_process.py")),
            str(config),
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
        )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        if not line:
            raise RuntimeError(f"the proxy did not start: {log.read_text()[-2000:]}")
        yield Proxy(process, int(line), log)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()
        # Closes the pipe's transport, which would otherwise complain when it is collected.
        process._transport.close()


class Upstream:
    """Answers as the step's script says and notes what came."""

    def __init__(self) -> None:
        self.start({"upstream": []})

    def start(self, step: dict[str, Any]) -> None:
        self.step = step
        self.seen: list[dict[str, Any]] = []
        self.hits = 0
        self.client_gone: float | None = None

    def pick(self, body: bytes, path: str) -> dict[str, Any]:
        model = caselib.model_of(path, body)
        for rule in self.step["upstream"]:
            if "if_model" in rule and rule["if_model"] == model:
                return rule
        plain = [rule for rule in self.step["upstream"] if "if_model" not in rule]
        rule = plain[min(self.hits, len(plain) - 1)]
        self.hits += 1
        return rule

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                line, headers = await read_head(reader)
                method, path, _ = line.split(" ", 2)
                body = await read_body(reader, headers)
                entry = {"method": method, "path": path, "headers": headers, "body": body, "closed_ms": None}
                self.seen.append(entry)
                if not await self.answer(self.pick(body, path), entry, reader, writer):
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    async def answer(
        self,
        rule: dict[str, Any],
        entry: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Play one answer; True when the connection may serve another request."""
        if "summary_text" in rule:
            rule = caselib.summary_response(entry["path"], entry["body"], rule["summary_text"])
        items = rule.get("chunks", [])
        headers = [list(header) for header in rule.get("headers", [["content-type", "application/json"]])]
        if rule.get("compress") == "gzip":
            headers.append(["content-encoding", "gzip"])
            items = [{"b64": base64.b64encode(caselib.response_bytes(rule)).decode()}]
        framed = rule.get("framing", "chunked")
        if framed == "chunked":
            headers.append(["transfer-encoding", "chunked"])
        elif framed == "length":
            headers.append(["content-length", str(sum(len(caselib.chunk_bytes(item) or b"") for item in items))])
        if rule.get("delay_ms") and await self.pause(rule["delay_ms"], entry, reader):
            return False
        head = [f"HTTP/1.1 {rule.get('status', 200)} X"] + [f"{name}: {value}" for name, value in headers]
        writer.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n")
        for item in items:
            data = caselib.chunk_bytes(item)
            if data is None:
                if "sleep_ms" in item and await self.pause(item["sleep_ms"], entry, reader):
                    return False
                if item.get("abort"):
                    writer.transport.abort()
                    return False
                continue
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if framed == "chunked" else data)
            try:
                await writer.drain()
            except ConnectionError:
                self.note_closed(entry)
                return False
            await asyncio.sleep(0.005)
        if framed == "chunked":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return framed != "close"

    async def pause(self, pause_ms: float, entry: dict[str, Any], reader: asyncio.StreamReader) -> bool:
        """Sleep, but notice the peer closing; True when it did."""
        try:
            data = await asyncio.wait_for(reader.read(1), pause_ms / 1000)
        except TimeoutError:
            return False
        except ConnectionError:
            data = b""
        if data == b"":
            self.note_closed(entry)
            return True
        return False

    def note_closed(self, entry: dict[str, Any]) -> None:
        entry["closed_ms"] = (time.monotonic() - self.client_gone) * 1000 if self.client_gone else 0


async def send(step: dict[str, Any], port: int, upstream: Upstream) -> dict[str, Any] | None:
    """Send the step's request; gives what the client saw, None when it left on purpose."""
    request = step["request"]
    patience_s = step.get("timeout_s", 60)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LIMIT)
    started = time.monotonic()
    try:
        body = caselib.wire_body(request)
        writer.write(_head_of(request, port, len(body)))
        interim = await _interim(reader) if request.get("wait_100") else None
        writer.write(body)
        await writer.drain()
        if "abort_after_ms" in request:
            await asyncio.sleep(request["abort_after_ms"] / 1000)
            upstream.client_gone = time.monotonic()
            writer.transport.abort()
            await asyncio.sleep(request.get("observe_ms", 3000) / 1000)
            return None
        line, headers = await asyncio.wait_for(read_head(reader), patience_s)
        while line.split(" ")[1].startswith("1") and line.split(" ")[1] != "101":
            line, headers = await asyncio.wait_for(read_head(reader), patience_s)
        first_ms = (time.monotonic() - started) * 1000
        try:
            data = await asyncio.wait_for(read_body(reader, headers, until_close=True), patience_s)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            data = getattr(error, "partial", b"")
    finally:
        writer.close()
    return {
        "status": int(line.split(" ")[1]),
        "headers": headers,
        "body": data,
        "ms": (time.monotonic() - started) * 1000,
        "first_byte_ms": first_ms,
        "interim": interim,
    }


def _head_of(request: dict[str, Any], port: int, body_bytes: int) -> bytes:
    headers = [["host", f"127.0.0.1:{port}"], *request.get("headers", [])]
    names = {name.lower() for name, _ in headers}
    if "content-type" not in names:
        headers.append(["content-type", "application/json"])
    if request.get("compress"):
        headers.append(["content-encoding", request["compress"]])
    if "transfer-encoding" not in names and "content-length" not in names:
        headers.append(["content-length", str(body_bytes)])
    lines = [f"{request.get('method', 'POST')} {request['path']} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def _interim(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    except TimeoutError:
        return b""


async def read_head(reader: asyncio.StreamReader) -> tuple[str, list[Pair]]:
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *rest = raw.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in rest if ":" in line)
    return first, [(name.strip(), value.strip()) for name, _, value in pairs]


async def read_body(reader: asyncio.StreamReader, headers: list[Pair], *, until_close: bool = False) -> bytes:
    """A body by its framing; what came before a cut is in the error's `partial`."""
    known = {name.lower(): value for name, value in headers}
    if "chunked" in known.get("transfer-encoding", "").lower():
        whole = b""
        try:
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                data = await reader.readexactly(size + 2)
                if size == 0:
                    return whole
                whole += data[:-2]
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise asyncio.IncompleteReadError(whole, None) from error
    if "content-length" in known:
        return await reader.readexactly(int(known["content-length"]))
    return await reader.read() if until_close else b""
