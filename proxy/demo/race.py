"""One session twice, turn by turn: straight to a provider, and through the real proxy to another one just like it.

Everything runs in this process, on free ports of 127.0.0.1: two loopback providers, the proxy with its store in a
temporary folder, and the client. What each provider was paid is computed from what it served, summary calls and retries
included. The providers count with another vocabulary than the proxy estimates with, and put a preamble of their own into
every prompt: with the same counter on both sides every estimate would be right, and would show nothing.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx

from proxy.demo.play import Heard, ask, body_of
from proxy.demo.provider import Provider, Recording, Rules
from proxy.demo.serving import serving
from proxy.demo.sessions import Session
from proxy.ledger.records import Turn
from proxy.ledger.store import TurnQuery
from proxy.pricing.cost import cost
from proxy.pricing.prices import Price, habit_for, price_for
from proxy.server.assembly import assembled
from proxy.server.tokenizers import counter
from proxy.settings.load import load
from proxy.settings.values import Profile, Settings
from proxy.stores import open_store
from proxy.tokens.usage import Usage

MODEL = "gpt-5.5"
WINDOW = 200_000
_UPSTREAM = "openai"
_VOCABULARY = "cl100k_base"
_PREAMBLE_TOKENS = 350
_KEEP_S = 3600.0
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn, both ways."""

    number: int
    """From 1."""
    of: int
    direct: Heard
    pruned: Heard

    @property
    def agree(self) -> bool:
        """The client got the same answer, or a better fate than without the proxy."""
        return self.pruned.said is not None and self.direct.said in (self.pruned.said, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one provider served."""

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    dollars: float


class Race:
    """Two providers, a proxy and a client that talks to both."""

    def __init__(
        self,
        session: Session,
        providers: tuple[Provider, Provider],
        clients: tuple[httpx.AsyncClient, httpx.AsyncClient],
    ) -> None:
        self._session = session
        self._direct, self._pruned = providers
        self._to_provider, self._to_proxy = clients
        self.rows: Sequence[Turn] = ()
        """The proxy's own record of its calls, oldest first; there when everything has been closed."""

    async def steps(self, most: int | None) -> AsyncIterator[Step]:
        """Play the turns, at most `most` of them."""
        turns = list(self._session.turns())[:most]
        for number, (history, _) in enumerate(turns):
            body = body_of(self._session, history, MODEL)
            direct = await ask(self._to_provider, body, number)
            pruned = await ask(self._to_proxy, body, number)
            yield Step(number=number + 1, of=len(turns), direct=direct, pruned=pruned)
            for provider in (self._direct, self._pruned):
                for record in provider.received:
                    record.body = b""

    def bills(self) -> tuple[Bill, Bill]:
        """What the provider without and the one with the proxy served."""
        return _bill(self._direct), _bill(self._pruned)


@asynccontextmanager
async def race(session: Session, profile: Profile) -> AsyncIterator[Race]:
    """Everything up and listening. Raises OSError where the machine refuses."""
    with tempfile.TemporaryDirectory(prefix="pruning-proxy-demo-") as folder:
        store = f"sqlite://{folder}/state.db"
        async with AsyncExitStack() as stack:
            providers = (_provider(session), _provider(session))
            urls = [await stack.enter_async_context(serving(provider)) for provider in providers]
            app = await stack.enter_async_context(assembled(_settings(profile, store, urls[1])))
            proxy = await stack.enter_async_context(serving(app))
            clients = [
                await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=_PATIENCE_S, trust_env=False))
                for url in (urls[0], proxy)
            ]
            running = Race(session, providers, (clients[0], clients[1]))
            yield running
        running.rows = await _rows(store)


def _settings(profile: Profile, store: str, upstream: str) -> Settings:
    flags = {
        ("profile",): profile,
        ("store", "url"): store,
        ("upstreams", _UPSTREAM, "base_url"): upstream,
        ("models", "*", "window"): WINDOW,
    }
    return load(None, flags, {})


async def _rows(store: str) -> Sequence[Turn]:
    # Read behind the proxy's end, which writes what it still held back.
    ledger = open_store(store, ttl_s=_KEEP_S, clock=time.time)
    try:
        return (await ledger.turns(TurnQuery(limit=100_000)))[::-1]
    finally:
        await ledger.close()


def price() -> Price:
    """The price table's row of the demo's model."""
    found = price_for(MODEL)
    assert found is not None
    return found


def _provider(session: Session) -> Provider:
    habit = habit_for(MODEL)
    return Provider(
        counter(_VOCABULARY),
        hidden_tokens=_PREAMBLE_TOKENS,
        window=WINDOW,
        answers=Recording(session.messages),
        rules=Rules(cache_writes=habit.write_ratio != 1.0),
        read_ratio=habit.read_ratio,
        write_ratio=habit.write_ratio,
        cache_ttl_s=habit.ttl_s,
        cache_minimum=habit.min_prefix,
        cache_granularity=habit.step,
        models=(MODEL,),
    )


def _bill(provider: Provider) -> Bill:
    served = [record.bill for record in provider.received if record.bill is not None]
    dollars = 0.0
    for bill in served:
        usage = Usage(
            input_tokens=bill.input,
            cache_read_tokens=bill.read,
            cache_write_tokens=bill.written,
            output_tokens=bill.output,
        )
        dollars += cost(usage, price()) or 0.0
    return Bill(
        calls=len(served),
        input_tokens=sum(bill.input for bill in served),
        cached_tokens=sum(bill.read for bill in served),
        output_tokens=sum(bill.output for bill in served),
        dollars=dollars,
    )
