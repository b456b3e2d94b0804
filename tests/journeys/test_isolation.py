"""The proxy talks to the upstream it was given and to nobody else."""

import ipaddress
import socket

import openai
import pytest

from proxy.settings.values import Store
from tests.journeys.world import MODEL, a_world

pytestmark = pytest.mark.anyio


@pytest.fixture
def asked(monkeypatch):
    """Addresses and names that were asked for; everything but loopback is refused."""
    found = []
    real_connect, real_lookup = socket.socket.connect, socket.getaddrinfo

    def is_loopback(host):
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            found.append(address[0])
            if not is_loopback(address[0]):
                raise OSError("no network in tests")
        return real_connect(self, address)

    def getaddrinfo(host, *rest, **more):
        found.append(host.decode() if isinstance(host, bytes) else host)
        if not is_loopback(found[-1]):
            raise socket.gaierror("no network in tests")
        return real_lookup(host, *rest, **more)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return found


async def test_a_session_of_twenty_turns_reaches_nothing_but_its_upstream(asked, tmp_path):
    store = Store(url=f"sqlite://{tmp_path}/state.db?timeout_s=10")
    async with (
        a_world(store=store) as world,
        openai.AsyncOpenAI(base_url=f"{world.proxy_url}/v1", api_key="sk-test", max_retries=0) as client,
    ):
        history = []
        for number in range(20):
            history.append({"role": "user", "content": f"question {number}"})
            answer = await client.chat.completions.create(
                model=("of-unknown-maker" if number % 2 else MODEL), messages=history
            )
            history.append({"role": "assistant", "content": answer.choices[0].message.content})

    assert len(world.behind.received) == 20
    assert asked
    assert set(asked) <= {"127.0.0.1", "localhost", "::1"}


async def test_two_clients_with_different_keys_never_share(tmp_path):
    bases = {}
    async with a_world(store=Store(url=f"sqlite://{tmp_path}/state.db?timeout_s=10")) as world:
        for turn in range(2):
            for key in ("sk-one", "sk-two"):
                history = [{"role": "user", "content": "the same question"}]
                if turn:
                    history += [{"role": "assistant", "content": "You said: the same question"}, history[0]]
                async with openai.AsyncOpenAI(base_url=f"{world.proxy_url}/v1", api_key=key, max_retries=0) as client:
                    if (turn, key) == (0, "sk-two"):
                        continue
                    answer = await client.chat.completions.with_raw_response.create(model=MODEL, messages=history)
                    bases[turn, key] = answer.headers["x-context-basis"], answer.headers["x-context-session"]

    assert bases[0, "sk-one"][0] == "estimated"
    assert bases[1, "sk-one"][0] == "anchored"
    assert bases[1, "sk-two"][0] == "estimated"
    assert bases[1, "sk-two"][1] != bases[1, "sk-one"][1]
