"""The measurements. Each takes all targets and goes round them, so that a busy machine is busy for all alike."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.bench.cost.bodies import PATHS, growing, known_history, short
from tests.bench.cost.client import Caller, connect, request
from tests.bench.cost.targets import Target

Rows = dict[str, dict[str, float]]
"""Target → figure → value."""

CHAT = PATHS["openai_chat"]
_numbers = iter(range(10**8))


def _next_short(dialect: str = "openai_chat") -> bytes:
    return request(PATHS[dialect], short(dialect, next(_numbers)))


async def first_byte(targets: Sequence[Target], rounds: int) -> Rows:
    """Added time to first byte of single 2 KB calls, one at a time, in turn; ms over the direct call of the same round."""
    callers = [await connect(target.port) for target in targets]
    waits: dict[str, list[int]] = {target.name: [] for target in targets}
    for number in range(rounds + 20):
        for target, caller in zip(targets, callers, strict=True):
            await caller.call(_next_short())
            await asyncio.sleep(0.001)
            if number >= 20:
                waits[target.name].append(caller.first_ns)
    for caller in callers:
        caller.close()
    direct = statistics.median(waits[targets[0].name])
    rows: Rows = {}
    for name, found in waits.items():
        found.sort()
        rows[name] = {
            f"ttfb p{share}, added ms": (found[min(len(found) - 1, len(found) * share // 100)] - direct) / 1e6
            for share in (50, 95, 99)
        }
    return rows


async def rate(
    targets: Sequence[Target],
    *,
    seconds: float,
    rounds: int,
    connections: int = 32,
    make: Callable[[], bytes] = _next_short,
    label: str = "2 KB",
) -> Rows:
    """Calls as fast as they go over some connections: calls per second, and CPU of the target for each."""
    callers = {target.name: [await connect(target.port) for _ in range(connections)] for target in targets}
    found: dict[str, list[tuple[float, float]]] = {target.name: [] for target in targets}

    async def drive(caller: Caller, until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            await caller.call(make())
            done += 1
        return done

    for number in range(rounds + 1):
        for target in targets:
            before, start = target.cpu_s(), time.perf_counter()
            # The first round only warms up.
            until = start + (seconds if number else min(seconds, 0.3))
            calls = sum(await asyncio.gather(*(drive(caller, until) for caller in callers[target.name])))
            took = time.perf_counter() - start
            await asyncio.sleep(0.05)
            if number:
                found[target.name].append((calls / took, (target.cpu_s() - before) / calls * 1e6))
    for some in callers.values():
        for caller in some:
            caller.close()
    return {
        name: {
            f"{label}, calls/s": statistics.median(one[0] for one in values),
            f"{label}, CPU µs/call": statistics.median(one[1] for one in values),
        }
        for name, values in found.items()
    }


async def formats(targets: Sequence[Target], *, seconds: float, rounds: int) -> Rows:
    """CPU of a 2 KB call in each wire format."""
    rows: Rows = {target.name: {} for target in targets}
    for dialect in PATHS:
        some = await rate(
            targets, seconds=seconds, rounds=rounds, make=lambda dialect=dialect: _next_short(dialect), label=dialect
        )
        for name, figures in some.items():
            rows[name] |= figures
    return rows


async def streams(targets: Sequence[Target], *, count: int, seconds: float, gap_ms: float = 20.0) -> Rows:
    """Many streams at once, 50 pieces a second each: CPU for each piece, how late they are, memory meanwhile."""
    rows: Rows = {}
    pieces = int(seconds * 1000 / gap_ms)
    for target in targets:
        callers = [await connect(target.port) for _ in range(count)]
        extra = b"x-bench-stream: %d %.1f\r\n" % (pieces, gap_ms)
        before, cpu_before = time.perf_counter(), 0.0
        running = []
        for number, caller in enumerate(callers):
            caller.late_ns = []
            running.append(caller.call(request(CHAT, short("openai_chat", next(_numbers), stream=True), extra)))
            # Begun within a second, as they would be, and not all in the same phase.
            if number % max(1, count // 50) == 0:
                await asyncio.sleep(0.02)
        begun = time.perf_counter()
        cpu_before = target.cpu_s()
        counted = sum(len(caller.late_ns) for caller in callers)
        await asyncio.sleep(max(0.2, before + seconds - begun - 0.2))
        cpu = target.cpu_s() - cpu_before
        window = time.perf_counter() - begun
        delivered = sum(len(caller.late_ns) for caller in callers) - counted
        memory = target.memory_mb()
        done, late = await asyncio.wait(running, timeout=seconds + 15)
        finished = sum(1 for one in done if one.exception() is None)
        for one in late:
            one.cancel()
        ages = sorted(age for caller in callers for age in caller.late_ns)
        for caller in callers:
            caller.close()
        rows[target.name] = {
            f"{count} streams, CPU µs/chunk": cpu / max(1, delivered) * 1e6,
            f"{count} streams, CPU %": cpu / window * 100,
            f"{count} streams, late p50 ms": ages[len(ages) // 2] / 1e6,
            f"{count} streams, late p99 ms": ages[len(ages) * 99 // 100] / 1e6,
            f"{count} streams, finished": finished,
            f"{count} streams, MB": memory,
        }
        await asyncio.sleep(0.3)
    return rows


async def sizes(targets: Sequence[Target], *, sizes_kb: Sequence[int], calls: int) -> Rows:
    """Added time and CPU of a call with a known history of each size."""
    rows: Rows = {target.name: {} for target in targets}
    for size_kb in sizes_kb:
        first, *bodies = known_history(size_kb * 1000, calls)
        waits = await _in_turn(targets, [first, *bodies], skip=3)
        _fill(rows, targets, waits, f"{size_kb} KB")
    return rows


async def chat(
    targets: Sequence[Target], *, turns: int, turn_bytes: int, coloured: int, chats: int, label: str
) -> Rows:
    """A growing chat whose calls come one by one, with a pause; figures are of its last third, where it is long."""
    rows: Rows = {target.name: {} for target in targets}
    waits: dict[str, list[tuple[float, float]]] = {target.name: [] for target in targets}
    for _number in range(chats):
        bodies = growing(turns, turn_bytes, coloured=coloured, seed=next(_numbers))
        for name, found in (await _in_turn(targets, bodies, skip=turns * 2 // 3, call=True)).items():
            waits[name] += found
    _fill(rows, targets, waits, label)
    return rows


async def chats(
    targets: Sequence[Target], *, count: int, turns: int, turn_bytes: int, coloured: int, rounds: int, label: str
) -> Rows:
    """Some growing chats at once, each turn right behind the one before it; CPU of a turn of their last third."""
    found: dict[str, list[float]] = {target.name: [] for target in targets}
    early = turns * 2 // 3
    for _number in range(rounds):
        begun = [growing(turns, turn_bytes, coloured=coloured, seed=next(_numbers)) for _ in range(count)]
        for target in targets:
            callers = [await connect(target.port) for _ in range(count)]
            await _all_called(callers, [bodies[:early] for bodies in begun])
            before = target.cpu_s()
            await _all_called(callers, [bodies[early:] for bodies in begun])
            await asyncio.sleep(0.1)
            found[target.name].append((target.cpu_s() - before) / (count * (turns - early)) * 1e3)
            for caller in callers:
                caller.close()
    return {name: {f"{label}, CPU ms/call": statistics.median(values)} for name, values in found.items()}


async def _all_called(callers: Sequence[Caller], chats: Sequence[Sequence[bytes]]) -> None:
    """Each caller sends its own chat."""

    async def drive(caller: Caller, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            await caller.call(request(CHAT, body, b"x-bench-call: 1\r\n"))

    await asyncio.gather(*(drive(caller, bodies) for caller, bodies in zip(callers, chats, strict=True)))


async def _in_turn(
    targets: Sequence[Target], bodies: Sequence[bytes], *, skip: int, call: bool = False
) -> dict[str, list[tuple[float, float]]]:
    """Wall seconds and CPU seconds of each call but the first `skip`."""
    found: dict[str, list[tuple[float, float]]] = {target.name: [] for target in targets}
    callers = [await connect(target.port) for target in targets]
    for number, body in enumerate(bodies):
        sent = request(CHAT, body, b"x-bench-call: 1\r\n" if call else b"")
        for target, caller in zip(targets, callers, strict=True):
            before = target.cpu_s()
            start = time.perf_counter()
            await caller.call(sent)
            took = time.perf_counter() - start
            # What is done behind the answer (settling, writing to the store) belongs to the call.
            await asyncio.sleep(0.03)
            if number >= skip:
                found[target.name].append((took, target.cpu_s() - before))
    for caller in callers:
        caller.close()
    return found


def _fill(rows: Rows, targets: Sequence[Target], waits: dict[str, list[Any]], label: str) -> None:
    direct = statistics.median(one[0] for one in waits[targets[0].name])
    for name, found in waits.items():
        rows[name][f"{label}, added ms"] = (statistics.median(one[0] for one in found) - direct) * 1e3
        rows[name][f"{label}, CPU ms/call"] = statistics.median(one[1] for one in found) * 1e3
