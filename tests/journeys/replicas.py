"""Replicas as they are run: proxy processes on one redis-server, and clients that go to any of them."""

import asyncio
import os
import re
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx

from tests.cases.replay import proxy_process
from tests.server.house import MODEL, a_provider
from tests.serving import serving

EAGER = 'policy = "always"\nprotect_tokens = 0\nminimum_tokens = 0\nmin_chars = 200'
_HEALTHY = re.compile(r"^pruning_proxy_store_healthy (\S+)", re.MULTILINE)


def toml_for(upstream_url, store_url, prune=EAGER):
    """A replica's configuration."""
    upstreams = "\n".join(
        f'[upstreams.{name}]\nbase_url = "{upstream_url}"\ntimeout_s = 20.0' for name in ("openai", "anthropic")
    )
    return (
        f'[server]\nport = 0\n[store]\nurl = "{store_url}"\n[prune]\n{prune}\n[compact]\ntrigger = "off"\n{upstreams}\n'
    )


@dataclass
class Replicas:
    """Processes that serve, and the provider behind them."""

    provider: object
    processes: list
    http: httpx.AsyncClient
    killed: set = field(default_factory=set)

    def url(self, number):
        return f"http://127.0.0.1:{self.processes[number].port}"

    def kill(self, number):
        """End a process as a machine that dies does."""
        self.killed.add(number)
        os.kill(self.processes[number]._pid, signal.SIGKILL)

    async def store_is_healthy(self, number):
        page = (await self.http.get(f"{self.url(number)}/metrics")).text
        return float(_HEALTHY.search(page)[1]) == 1.0

    async def until_healthy(self, patience_s=60.0):
        """Wait until every process that lives reaches its store."""
        async with asyncio.timeout(patience_s):
            for number in range(len(self.processes)):
                while number not in self.killed and not await self.store_is_healthy(number):
                    await asyncio.sleep(0.05)

    async def until(self, true, patience_s=60.0):
        """Wait until this holds."""
        async with asyncio.timeout(patience_s):
            while not true():
                await asyncio.sleep(0.02)

    def logs(self):
        return "".join(process.log() for process in self.processes)


@asynccontextmanager
async def replicas(number, store_url, directory, *, prune=EAGER, around=lambda provider: provider, **provider):
    """So many proxy processes on one store; `around` may put something in front of their provider."""
    async with AsyncExitStack() as stack:
        behind = a_provider(**provider)
        url = await stack.enter_async_context(serving(around(behind)))
        processes = []
        for index in range(number):
            own = directory / f"replica-{index}"
            own.mkdir(parents=True)
            processes.append(await stack.enter_async_context(proxy_process(toml_for(url, store_url, prune), own)))
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=30.0, trust_env=False))
        yield Replicas(behind, processes, http)


@dataclass
class Heard:
    """What a client got from one call."""

    replica: int
    basis: str
    session: str
    failure: str = ""


class Talk:
    """One agent's conversation: each call carries the history and a tool result that is long enough to be pruned."""

    _numbers = count()

    def __init__(self, name=None):
        self.name = name or f"talk-{next(self._numbers)}"
        self.history = [{"role": "user", "content": f"Look after {self.name}."}]
        self.heard = []

    async def say(self, house, replica):
        """One call to this replica; what it answered becomes history, what failed is tried again by nobody."""
        body = {"model": MODEL, "messages": self.history, "stream": True, "stream_options": {"include_usage": True}}
        try:
            text, headers = await _streamed(house, replica, body, self.name)
        except (httpx.HTTPError, AssertionError) as error:
            self.heard.append(Heard(replica, "", "", repr(error)))
            return self.heard[-1]
        self.heard.append(Heard(replica, headers["x-context-basis"], headers["x-context-session"]))
        number = len(self.heard)
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"n":{number}}}'},
        }
        self.history += [
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"{self.name} line {number} of a long file\n" * 30},
        ]
        return self.heard[-1]


async def _streamed(house, replica, body, name):
    sent = {"authorization": f"Bearer {name}"}
    url = f"{house.url(replica)}/v1/chat/completions"
    async with house.http.stream("POST", url, json=body, headers=sent) as answer:
        raw = await answer.aread()
        assert answer.status_code == 200, f"status {answer.status_code}"
        assert raw.endswith(b"data: [DONE]\n\n"), "the stream has no end"
        return "".join(re.findall(r'"content":"([^"]*)"', raw.decode())), answer.headers
