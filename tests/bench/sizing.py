"""What a call and a conversation cost, from a real proxy process on a real redis-server.

    python -m tests.bench.sizing [--conversations 200] [--turns 10] [--gentle]

Told per call: the proxy's CPU, commands and bytes between the proxy and Redis, what Redis keeps; and what a replica's memory
grows by. The numbers that the README's sizing is made of.
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from tests.bench.soak import looked_at
from tests.journeys.replicas import EAGER, Talk, replicas
from tests.stores.servers import RedisServer

AT_ONCE = 8


def redis_facts(server):
    """used_memory, bytes in, bytes out, commands."""
    lines = dict(line.split(":", 1) for line in server.cli("info").splitlines() if ":" in line)
    names = ("used_memory", "total_net_input_bytes", "total_net_output_bytes", "total_commands_processed")
    return [int(lines[name]) for name in names]


def cpu_ms(pid):
    """CPU time of a process in ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(options):
    """Print the figures."""
    with tempfile.TemporaryDirectory() as directory:
        redis = RedisServer(Path(directory) / "redis").start()
        try:
            # A patient store: on a busy machine the default gives up after a quarter of a second, and memory stands in.
            async with replicas(
                1, f"{redis.url}?timeout_s=10", Path(directory), prune="" if options.gentle else EAGER
            ) as house:
                pid = house.processes[0]._pid
                await asyncio.gather(*(Talk().say(house, 0) for _ in range(AT_ONCE)))
                before, cpu, memory = redis_facts(redis), cpu_ms(pid), looked_at(pid)[0]
                talks = [Talk() for _ in range(options.conversations)]
                gate = asyncio.Semaphore(AT_ONCE)

                async def converse(talk):
                    async with gate:
                        for _ in range(options.turns):
                            await talk.say(house, 0)
                            house.provider.received.clear()

                await asyncio.gather(*map(converse, talks))
                await asyncio.sleep(1)
                after, calls = redis_facts(redis), options.conversations * options.turns
                failed = sum(bool(one.failure) for talk in talks for one in talk.heard)
                kept, received, sent, commands = (new - old for new, old in zip(after, before, strict=True))
                print(f"calls                        {calls} ({failed} failed)")
                print(f"proxy CPU per call           {(cpu_ms(pid) - cpu) / calls:.2f} ms")
                print(f"proxy memory                 {memory:.0f} MB before, {looked_at(pid)[0]:.0f} MB after")
                print(f"redis commands per call      {commands / calls:.1f}")
                print(f"redis bytes per call         {received / calls:.0f} in, {sent / calls:.0f} out")
                print(f"redis keeps per call         {kept / calls:.0f} bytes")
                print(f"redis keeps per conversation {kept / options.conversations:.0f} bytes of {options.turns} calls")
                for line in redis.cli("info", "commandstats").splitlines():
                    name, _, facts = line.partition(":calls=")
                    if name.startswith("cmdstat_"):
                        print(f"  {name[8:]:<12} {int(facts.split(',')[0]) / calls:5.2f} a call")
        finally:
            redis.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--gentle", action="store_true", help="the default policy; without it each call decides edits")
    asyncio.run(measured(parser.parse_args()))
