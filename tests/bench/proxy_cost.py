"""The cost of being in the middle: `python -m tests.bench.proxy_cost [--quick] [--only NAME,…] [--json FILE]`.

Against a fast scripted upstream: going direct, a bare nginx, and the proxy as users start it, in turn within one run.
Upstream and client share the first core, nginx and proxy the second. CPU is the scheduler's own sum over all threads of
the target, so also what is done behind an answer. Walls are differences to direct in the same run. Trust ratios.

Needs nginx; redis-server and a second core only for the measurements that name them.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from tests.bench.cost import measures
from tests.bench.cost.measures import Rows
from tests.bench.cost.targets import Target, free_port, nginx, proxy, upstream

NOTHING_GOES = "[prune]\nprotect_tokens = 1000000\n"
"""So that a chat has exactly the edits that its turns were made to get."""

_LONGEST_S = 300.0

NAMES = ("calls", "formats", "bodies", "chat", "streams", "stores", "workers")


class Scale:
    """How much is measured."""

    def __init__(self, *, quick: bool, smoke: bool = False) -> None:
        self.seconds = 0.1 if smoke else 0.5 if quick else 1.0
        self.rounds = 1 if smoke else 2 if quick else 5
        self.singles = 5 if smoke else 100 if quick else 400
        self.turns = 6 if smoke else 40
        self.chats = 1 if smoke else 2 if quick else 4
        self.at_once = 2 if smoke else 4
        self.sizes_kb = (2, 50) if smoke else (2, 50, 500, 2000, 8000)
        self.size_calls = 5 if smoke else 9 if quick else 15
        self.streams = ((3, 0.3),) if smoke else ((100, 3.0), (1000, 5.0)) if quick else ((100, 5.0), (1000, 8.0))


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis of its own without persistence; its URL."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)


def _merged(rows: Rows, more: Rows) -> None:
    for name, figures in more.items():
        rows.setdefault(name, {}).update(figures)


async def _told(what: str, measured: Awaitable[Rows]) -> Rows:
    """Say what is being measured; TimeoutError when it hangs."""
    print(f"{what} …", file=sys.stderr, flush=True)
    async with asyncio.timeout(_LONGEST_S):
        return await measured


async def measure(targets: list[Target], scale: Scale, only: set[str]) -> Rows:
    """Everything that goes to the same three targets."""
    rows: Rows = {target.name: {} for target in targets}
    for target in targets[1:]:
        rows[target.name] |= {"start to first answer, s": target.started_s, "idle, MB": target.memory_mb()}
    if "calls" in only:
        _merged(rows, await _told("first byte", measures.first_byte(targets, scale.singles)))
        _merged(rows, await _told("rate", measures.rate(targets, seconds=scale.seconds, rounds=scale.rounds)))
    if "formats" in only:
        some = measures.formats(targets, seconds=scale.seconds / 2, rounds=max(1, scale.rounds // 2))
        _merged(rows, await _told("formats", some))
    if "bodies" in only:
        some = measures.sizes(targets, sizes_kb=scale.sizes_kb, calls=scale.size_calls)
        _merged(rows, await _told("bodies", some))
    if "chat" in only:
        for coloured in (0, 20):
            label = f"chat of {scale.turns} turns of 12 KB, {coloured} edits"
            some = measures.chat(
                targets, turns=scale.turns, turn_bytes=12_000, coloured=coloured, chats=scale.chats, label=label
            )
            _merged(rows, await _told(label, some))
            label = f"{scale.at_once} such chats at once, {coloured} edits"
            many = measures.chats(
                targets,
                count=scale.at_once,
                turns=scale.turns,
                turn_bytes=12_000,
                coloured=coloured,
                rounds=scale.chats,
                label=label,
            )
            _merged(rows, await _told(label, many))
    if "streams" in only:
        for count, seconds in scale.streams:
            some = measures.streams(targets, count=count, seconds=seconds)
            _merged(rows, await _told(f"{count} streams", some))
    for target in targets[1:]:
        rows[target.name]["at the end, MB"] = target.memory_mb()
    return rows


async def measure_pruning(targets: list[Target], scale: Scale) -> Rows:
    """Chats of which something goes at every turn: this upstream names no cached tokens, so that nothing speaks for waiting."""
    rows: Rows = {}
    size = {"turns": scale.turns, "turn_bytes": 12_000, "coloured": 0}
    label = f"chat of {scale.turns} turns of 12 KB, a result goes at each"
    _merged(rows, await _told(label, measures.chat(targets, **size, chats=scale.chats, label=label)))
    label = f"{scale.at_once} such chats at once, a result goes at each turn"
    many = measures.chats(targets, **size, count=scale.at_once, rounds=scale.chats, label=label)
    _merged(rows, await _told(label, many))
    return rows


async def measure_stores(targets: list[Target], scale: Scale) -> Rows:
    """What depends on where the state lies."""
    rows = await measures.rate(targets, seconds=scale.seconds, rounds=scale.rounds)
    label = f"chat of {scale.turns} turns of 12 KB, 0 edits"
    _merged(
        rows,
        await measures.chat(targets, turns=scale.turns, turn_bytes=12_000, coloured=0, chats=scale.chats, label=label),
    )
    return rows


def run(scale: Scale, only: set[str]) -> dict[str, Rows]:
    """Table name → rows."""
    tables: dict[str, Rows] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        up = stack.enter_context(upstream())
        direct = Target("direct", up)
        if only & {"calls", "formats", "bodies", "chat", "streams"}:
            with ExitStack() as some:
                targets = [direct]
                if shutil.which("nginx"):
                    targets.append(some.enter_context(nginx(up, folder / "nginx")))
                targets.append(some.enter_context(proxy(up, folder / "ours", config=NOTHING_GOES)))
                tables["one core"] = uvloop.run(measure(targets, scale, only))
        if "chat" in only:
            with ExitStack() as some:
                targets = [direct]
                if shutil.which("nginx"):
                    targets.append(some.enter_context(nginx(up, folder / "nginx2")))
                targets.append(some.enter_context(proxy(up, folder / "pruning")))
                tables["in the default configuration"] = uvloop.run(measure_pruning(targets, scale))
        if "stores" in only and shutil.which("redis-server"):
            with ExitStack() as some:
                url = some.enter_context(redis_server(folder))
                stores = {"memory": "memory://", "sqlite": "", "redis": url}
                targets = [direct]
                for name, store in stores.items():
                    started = proxy(up, folder / name, name=name, store=store, config=NOTHING_GOES)
                    targets.append(some.enter_context(started))
                tables["by store"] = uvloop.run(measure_stores(targets, scale))
        if "workers" in only:
            with ExitStack() as some:
                targets = [direct]
                for count in (1, 2):
                    started = proxy(up, folder / f"w{count}", name=f"{count} workers", workers=count, free=True)
                    targets.append(some.enter_context(started))
                tables["by number of workers, no core of their own"] = uvloop.run(
                    measures.rate(targets, seconds=scale.seconds, rounds=scale.rounds, connections=64)
                )
    return tables


def shown(rows: Rows) -> str:
    """The table, with the ratio of the last target to the first two that have the figure."""
    names = list(rows)
    figures = list(dict.fromkeys(figure for one in rows.values() for figure in one))
    lines = [f"| | {' | '.join(names)} | {names[-1]} : {names[1]} |", "| --- |" + " --- |" * (len(names) + 1)]
    for figure in figures:
        values = [rows[name].get(figure) for name in names]
        last, base = values[-1], values[1]
        ratio = f"{last / base:.2f}" if last is not None and base else ""
        cells = ["" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".") for value in values]
        lines.append(f"| {figure} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="a minute instead of five")
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    only = set(options.only.split(","))
    if not only <= set(NAMES):
        parser.error(f"--only takes {', '.join(NAMES)}")
    cores = sorted(os.sched_getaffinity(0))
    if only != {"workers"}:
        os.sched_setaffinity(0, cores[:1])
    before = os.getloadavg()[0]
    tables = run(Scale(quick=options.quick), only)
    for name, rows in tables.items():
        print(f"\n{name}\n\n{shown(rows)}")
    print(f"\nload average: {before:.1f} before, {os.getloadavg()[0]:.1f} after, which includes this run")
    if options.json:
        options.json.write_text(json.dumps({"tables": tables, "load": [before, *os.getloadavg()]}, indent=2))


if __name__ == "__main__":
    main()
