"""CPU per call of each store, and bytes per row: `python -m tests.bench.stores [redis-url]`.

A turn of a long chat: 48 boundaries asked for, of which the newest is unknown and the others are; one decision; one
settled call. CPU is the process's, threads included; the server's own is not counted.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from proxy.ledger.store import Settlement
from proxy.stores import open_resilient, open_store
from proxy.stores.codec import pack, pack_plan
from tests.stores.conftest import a_plan, a_turn, a_usage, an_anchor, key

ROUNDS = 2000
PAUSE_EVERY = 50


async def cpu_us(call, arguments):
    """Median over blocks, in µs of CPU per call; a pause after each block lets written-behind rows go out within it."""
    blocks = []
    for start in range(0, len(arguments), PAUSE_EVERY):
        some = arguments[start : start + PAUSE_EVERY]
        before = time.process_time()
        for argument in some:
            await call(*argument)
        await asyncio.sleep(0.06)
        blocks.append((time.process_time() - before) / len(some) * 1e6)
    return statistics.median(blocks)


async def measure(name, store):
    plan = a_plan(*(f"[{n} tool output of 900 tokens cleared: run it again]" for n in range(20)))
    history = [key(f"h{number}") for number in range(47)]
    for number in range(47):
        await store.decide(an_anchor(f"h{number}", plan=plan), plan)
        await store.settle(Settlement(an_anchor(f"h{number}", plan=plan, usage=a_usage()), a_turn(number)))
    decided = [(an_anchor(f"d{n}", plan=plan), plan) for n in range(ROUNDS)]
    settled = [(an_anchor(f"s{n}", plan=plan, usage=a_usage()), a_turn(n, session=f"s{n % 20}")) for n in range(ROUNDS)]
    figures = {
        "anchors(1 known + 1 unknown)": await cpu_us(
            store.anchors, [([key(f"u{n}"), history[-1]],) for n in range(ROUNDS)]
        ),
        "anchors(47 known + 1 unknown)": await cpu_us(
            store.anchors, [([key(f"v{n}"), *history],) for n in range(ROUNDS)]
        ),
        "anchors(48 unknown)": await cpu_us(
            store.anchors, [([key(f"w{n}.{k}") for k in range(48)],) for n in range(500)]
        ),
        "plan": await cpu_us(store.plan, [(plan.plan_id(),)] * ROUNDS),
        "decide": await cpu_us(store.decide, decided),
        "settle": await cpu_us(store.settle, settled),
    }
    before = time.perf_counter()
    await store.sessions(100)
    figures["sessions(100), ms of wall"] = (time.perf_counter() - before) * 1e3
    await store.close()
    print(name, *(f"  {what}: {figure:.1f}" for what, figure in figures.items()), sep="\n")


async def main(redis_urls):
    with tempfile.TemporaryDirectory() as directory:
        urls = ["memory://", f"sqlite://{directory}/state.db", *redis_urls]
        for url in urls:
            await measure(url.partition("://")[0], open_store(url, ttl_s=3600, clock=time.time))
        await measure("resilient sqlite", open_resilient(f"sqlite://{directory}/r.db", ttl_s=3600, clock=time.time))
        rows = 3 * ROUNDS + 94
        print(f"file bytes per row, indexes included: {Path(directory, 'r.db').stat().st_size / rows:.0f}")
    print(f"packed anchor: {len(pack(an_anchor(usage=a_usage())))}, packed turn: {len(pack(a_turn()))}")
    plan = a_plan(*(f"[{n} tool output of 900 tokens cleared: run it again]" for n in range(100)))
    print(f"plan of 100 edits: {len(plan.encoded())} encoded, {len(pack_plan(plan))} stored")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
