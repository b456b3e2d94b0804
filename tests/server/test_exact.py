"""The provider's own count, asked where the estimate cannot decide: against the strict loopback provider."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import reduce

import pytest
from structlog.testing import capture_logs

from proxy.compaction.policy import NO_MODEL, CompactPolicy
from proxy.demo.provider import Rules
from proxy.exchange.prepare import prepare
from proxy.exchange.receive import NO_MEMORY
from proxy.server import exact
from proxy.settings.values import Compact, Estimate, Reasoning, Server, Upstream
from proxy.tokens.learn import NOTHING_LEARNED, Growth, Sample, update
from tests.builders import QUIET, a_received, a_scale, said, user, words
from tests.server.house import EAGER, MODEL, NO_PRUNING, OFF, Left, a_house, a_provider, answering, silent
from tests.server.thinkers import MessagesClient, thinks
from tests.serving import serving

pytestmark = pytest.mark.anyio

SAID = ["alpha beta gamma delta " * 250, "read " * 800, "one two three " * 250, "ok", "go"]
HISTORY = [user(text) if number % 2 == 0 else said(text) for number, text in enumerate(SAID)]
RESERVE = 500
KEY = "sk-very-secret"

MESSAGES = "/v1/messages"
BODIES = {
    MESSAGES: {"model": MODEL, "max_tokens": RESERVE, "messages": HISTORY, "system": "Be brief.", "metadata": {}},
    "/v1/responses": {
        "model": MODEL, "max_output_tokens": RESERVE, "input": HISTORY, "instructions": "Be brief.", "store": False,
    },
    f"/v1beta/models/{MODEL}:generateContent": {
        "contents": [
            {"role": "user" if one["role"] == "user" else "model", "parts": [{"text": one["content"]}]}
            for one in HISTORY
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"maxOutputTokens": RESERVE},
    },
}  # fmt: skip
COUNTS = {
    MESSAGES: "/v1/messages/count_tokens",
    "/v1/responses": "/v1/responses/input_tokens",
    f"/v1beta/models/{MODEL}:generateContent": f"/v1beta/models/{MODEL}:countTokens",
}


class Counting:
    """A provider whose counts go as `count(receive, send)` says, or as the provider's own when that is None."""

    def __init__(self, count=None, *, below="", **more):
        self.provider = a_provider(**more)
        self.count = count
        self.below = below
        """Path prefix under which alone it serves."""
        self.asked = []
        """Path and headers of each question."""

    @property
    def paths(self):
        return [path for path, _ in self.asked]

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            assert scope["path"].startswith(self.below)
            scope = {**scope, "path": scope["path"].removeprefix(self.below)}
            if scope["path"].endswith(("count_tokens", "input_tokens", "countTokens")):
                self.asked.append((scope["path"], dict(scope["headers"])))
                if self.count is not None:
                    while (await receive()).get("more_body"):
                        pass
                    await self.count(receive, send)
                    return
        await self.provider(scope, receive, send)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No question is given up on a busy machine."""
    monkeypatch.setattr(exact, "WAIT_S", 60.0)


@asynccontextmanager
async def counted(upstream, *, window, how="near", **more):
    sections = {
        "prune": NO_PRUNING,
        "compact": Compact(model=NO_MODEL, background_share=1.0, keep_recent_messages=1),
        "estimate": Estimate(exact=how),
    }
    async with a_house(upstream, window=window, max_output=RESERVE, **sections | more) as house:
        yield house


async def post(house, path=MESSAGES, *, key=KEY, **fields):
    answer = await house.http.post(path, json={**BODIES[path], **fields}, headers={"x-api-key": key})
    assert answer.status_code == 200, answer.text
    return answer


async def estimate(path=MESSAGES):
    async with counted(Counting(), window=100_000, how="off") as house:
        return int((await post(house, path)).headers["x-context-estimated-input-tokens"])


def page_of(house):
    return house.handler.shared.watch.numbers.page().decode()


async def near(upstream, path=MESSAGES, *, by=20, **more):
    """One call whose estimate stays `by` tokens below the limit; gives the answer, its row and the metrics."""
    async with counted(upstream, window=await estimate(path) + RESERVE + by, **more) as house:
        answer = await post(house, path)
        (turn,) = await house.turns("main")
        return answer, turn, page_of(house)


@pytest.mark.parametrize("path", BODIES)
async def test_near_the_limit_the_provider_is_asked_once_about_what_goes_out(path):
    upstream = Counting()
    _, turn, page = await near(upstream, path)

    assert upstream.paths == [COUNTS[path]]
    assert turn.exact == turn.usage.input_tokens
    assert turn.exact_ms > 0
    assert turn.edits == {}
    assert 'exact_counts_total{outcome="used"} 1.0' in page


@pytest.mark.parametrize("path", BODIES)
async def test_a_count_over_the_limit_compacts_what_the_estimate_would_have_let_pass(path):
    upstream = Counting(hidden_tokens=100)
    _, turn, _ = await near(upstream, path)

    assert turn.exact == await estimate(path) + 100
    assert turn.edits == {"summarise": 1}
    assert len(upstream.paths) == 1


@pytest.mark.parametrize("path", BODIES)
async def test_a_count_below_the_limit_leaves_alone_what_the_estimate_would_have_compacted(path):
    name = "totalTokens" if path.endswith("generateContent") else "input_tokens"
    upstream = Counting(answering(200, {name: await estimate(path) - 100}))
    _, turn, _ = await near(upstream, path, by=-20)
    _, unasked, _ = await near(Counting(), path, by=-20, how="off")

    assert turn.edits == {}
    assert unasked.edits == {"summarise": 1}


async def test_the_count_decides_and_the_estimate_is_still_what_accuracy_is_measured_by():
    answer, turn, _ = await near(Counting(hidden_tokens=15))
    estimated = await estimate()

    assert (turn.estimated, turn.exact, turn.usage.input_tokens) == (estimated, estimated + 15, estimated + 15)
    assert turn.error == -15
    assert turn.system_tokens + turn.tools_tokens <= turn.estimated == turn.new_tokens + turn.corrections
    assert turn.basis == answer.headers["x-context-basis"] == "estimated"
    assert int(answer.headers["x-context-estimated-input-tokens"]) == estimated


async def test_on_an_earlier_call_only_what_is_new_is_in_doubt():
    async def both(upstream, window, how):
        async with counted(upstream, window=window, how=how) as house:
            first = (await post(house)).json()["content"]
            longer = [*HISTORY, {"role": "assistant", "content": first}, user("more " * 200)]
            await post(house, messages=longer)
            return await house.turns("main")

    upstream = Counting()
    _, calm = await both(upstream, 100_000, "off")
    window = calm.estimated + RESERVE
    _, close = await both(upstream, window + 10, "near")
    _, clear = await both(upstream, window + 100, "near")

    assert calm.basis == close.basis == "anchored"
    assert close.exact == close.usage.input_tokens
    assert clear.exact is None
    assert close.grown == calm.grown


def is_near_at(limit, *, doubt=0.0, learned=NOTHING_LEARNED):
    """Whether a first call whose limit is at this share of its estimate is near."""
    received, scale = a_received([user(words("new", 10_000))], max_tokens=RESERVE), a_scale()
    total = prepare(received, NO_MEMORY, QUIET, scale, now=0.0, learned=learned).context.total
    policy = replace(QUIET, window=round(limit * total) + RESERVE, doubt=doubt, compact=CompactPolicy())
    ready = prepare(received, NO_MEMORY, policy, scale, now=0.0, learned=learned)
    return exact.is_near(ready, policy, learned)


def test_until_enough_is_learned_a_first_call_may_be_off_by_as_much_as_a_foreign_tokenizer():
    assert [is_near_at(limit) for limit in (0.8, 0.9, 1.1, 1.2)] == [False, True, True, False]


def test_what_was_learned_makes_the_doubt_smaller():
    sample = Sample(growth=Growth(10_000), actual=10_000, anchored=False)
    learned = reduce(update, [sample] * 24, NOTHING_LEARNED)

    assert [is_near_at(limit, learned=learned) for limit in (0.9, 0.99, 1.01, 1.1)] == [False, False, False, False]
    assert is_near_at(1.1, learned=learned, doubt=0.15)


async def test_far_from_the_limit_nobody_is_asked():
    upstream = Counting()
    async with counted(upstream, window=100_000) as house:
        await post(house)

    assert upstream.paths == []


@pytest.mark.parametrize("sections", [
    {"how": "off"},
    {"mode": "observe"},
    {"mode": "off"},
])  # fmt: skip
async def test_where_nothing_would_be_decided_by_it_nobody_is_asked(sections):
    upstream = Counting()
    _, turn, _ = await near(upstream, **sections)

    assert upstream.paths == []
    assert (turn.exact, turn.exact_ms) == (None, 0)


async def test_a_clients_own_count_is_passed_on_and_asks_for_no_other():
    upstream = Counting()
    async with counted(upstream, window=await estimate() + RESERVE + 20) as house:
        body = {name: BODIES[MESSAGES][name] for name in ("model", "messages", "system")}
        await house.http.post(COUNTS[MESSAGES], json=body)

    assert len(upstream.paths) == 1


@pytest.mark.parametrize(("trouble", "outcome"), [
    (answering(404, {"error": "no"}), "missing"),
    (answering(405, b""), "missing"),
    (answering(401, {"error": "no"}), "failed"),
    (answering(429, {"error": "slow down"}), "failed"),
    (answering(500, {"error": "no"}), "failed"),
    (answering(302, b""), "failed"),
    (answering(200, b"<html>hello</html>", "text/html"), "failed"),
    (answering(200, b"\xff garbage"), "failed"),
    (answering(200, b"[" * 60_000), "failed"),
    (answering(200, b" " * 70_000), "failed"),
    (answering(200, b'{"input_tokens":', whole=False), "failed"),
    (answering(200, {"input_tokens": -4}), "failed"),
    (answering(200, {"input_tokens": True}), "failed"),
    (answering(200, {"input_tokens": "4000"}), "failed"),
    (answering(200, {"input_tokens": 1}), "implausible"),
    (answering(200, {"input_tokens": 10_000_000}), "implausible"),
    (answering(200, b'{"input_tokens":1' + b"0" * 400 + b"}"), "implausible"),
    (silent(60), "timeout"),
])  # fmt: skip
async def test_without_a_usable_count_the_estimate_stands(trouble, outcome, monkeypatch):
    if outcome == "timeout":
        monkeypatch.setattr(exact, "WAIT_S", 0.1)

    async def left(receive, send):
        with suppress(Left):
            await trouble(receive, send)

    with capture_logs() as logs:
        _, turn, page = await near(Counting(left))

    assert turn.exact is None
    assert turn.exact_ms > 0
    assert turn.edits == {}
    assert turn.failed_open == ""
    assert f'exact_counts_total{{outcome="{outcome}"}} 1.0' in page
    assert KEY not in str(logs)


async def test_what_trips_is_counted_by_itself_and_the_call_goes_on(monkeypatch):
    def trip(dialect, answer):
        raise RuntimeError("alpha beta")

    monkeypatch.setattr(exact, "count_answer", trip)
    _, turn, page = await near(Counting())

    assert turn.exact is None
    assert turn.outcome == "ok"
    assert 'exact_counts_total{outcome="internal"} 1.0' in page
    assert 'failed_open_total{stage="exact"} 1.0' in page


async def test_the_wait_stands_beside_the_proxys_own_time():
    async def late(receive, send):
        await asyncio.sleep(0.5)
        await answering(404, b"")(receive, send)

    async with counted(Counting(late), window=await estimate() + RESERVE + 20) as house:
        before = time.perf_counter()
        await post(house)
        took_ms = (time.perf_counter() - before) * 1000
        (turn,) = await house.turns("main")

    assert turn.exact_ms >= 500
    assert turn.overhead_ms + turn.exact_ms <= took_ms


@pytest.mark.parametrize(("status", "rest", "asked"), [(404, 0.0, 1), (429, 60.0, 1), (429, 0.0, 2)])
async def test_who_has_not_answered_is_left_in_peace_for_a_while(status, rest, asked, monkeypatch):
    monkeypatch.setattr(exact, "REST_S", rest)
    upstream = Counting(answering(status, {"error": "no"}))
    async with counted(upstream, window=await estimate() + RESERVE + 20) as house:
        await post(house)
        await post(house, messages=[user("omega" + SAID[0][5:]), *HISTORY[1:]])

    assert len(upstream.paths) == asked


async def test_a_key_that_may_not_count_silences_no_other():
    upstream = Counting(answering(403, {"error": "this key may not"}))
    async with counted(upstream, window=await estimate() + RESERVE + 20) as house:
        await post(house, key="one")
        upstream.count = None
        await post(house, key="two")
        await post(house, key="one")
        turns = await house.turns("main")

    assert [headers[b"x-api-key"] for _, headers in upstream.asked] == [b"one", b"two"]
    assert [turn.exact is not None for turn in turns] == [False, True, False]


async def test_the_count_is_asked_with_the_upstreams_own_key_and_below_its_path():
    upstream = Counting(below="/api")
    window = await estimate() + RESERVE + 20
    async with serving(upstream) as url:
        more = {
            "server": Server(require_keys=("us=proxy-key",)),
            "upstreams": {"anthropic": Upstream(base_url=url + "/api", api_key="sk-own")},
        }
        async with counted(upstream, window=window, **more) as house:
            await post(house, key="proxy-key")

    ((path, headers),) = upstream.asked
    assert path == COUNTS[MESSAGES]
    assert headers[b"x-api-key"] == b"sk-own"
    assert b"proxy-key" not in headers.values()


async def test_an_option_in_the_counted_body_comes_with_the_header_that_it_needs(monkeypatch):
    monkeypatch.setattr(exact, "is_near", lambda *given: True)
    provider = a_provider(answers=thinks, rules=Rules(prefix_check=True))
    more = {"reasoning": Reasoning(drop_bound=True), "estimate": Estimate(exact="near")}
    async with a_house(provider, prune=EAGER, compact=OFF, **more) as house:
        client = MessagesClient(house, "claude-opus-5-5", drops=False, thinking={"type": "adaptive"})
        for request in ("first", "second"):
            await client.say(request, results=lambda number: f"found number {number} " + "something to read " * 500)
    counts = [record for record in provider.received if record.path.endswith("count_tokens")]

    assert any(b"drop_block" in record.body for record in counts)
    assert {record.status for record in counts} == {200}


async def test_a_client_that_leaves_while_it_waits_is_no_failure():
    begun = asyncio.Event()

    async def forever(receive, send):
        begun.set()
        await receive()

    async with counted(Counting(forever), window=await estimate() + RESERVE + 20) as house:
        waiting = asyncio.create_task(post(house))
        await begun.wait()
        waiting.cancel()
        async with asyncio.timeout(60):
            while "exact_counts_total{" not in page_of(house):
                await asyncio.sleep(0.01)
        page = page_of(house)

    assert 'exact_counts_total{outcome="client_closed"} 1.0' in page
    assert "failed_open_total{" not in page
