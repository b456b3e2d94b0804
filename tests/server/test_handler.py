import asyncio
import gc
import json
from itertools import pairwise

import httpx
import pytest
from structlog.testing import capture_logs

from proxy.demo.provider import Answer
from proxy.dialects.base import View
from proxy.exchange.ready import Ready
from proxy.server.relay import Exchange
from tests.builders import messages_of, rounds, said, user
from tests.server.house import EAGER, OFF, a_house, a_provider, answering, chat_answer

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500
SEEN = [*rounds(LONG), said("read it"), user("next")]
FIELDS = {
    *("session", "turn", "upstream", "model", "dialect", "basis", "estimated", "actual", "error", "error_percent"),
    *("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "removed_tokens"),
    *("edits", "outcome", "error_type", "overhead_ms"),
}
"""Of the `context_estimate` event: a contract."""


async def settled(house, turns):
    for _ in range(3000):
        if len(found := await house.turns()) >= turns:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("no row came")


# What the client is told


async def test_r9_each_modelled_answer_carries_the_prediction_in_its_headers():
    async with a_house(a_provider()) as house:
        first = await house.chat([user("hello")])
        second = await house.chat([user("hello"), said("You said: hello"), user("again")])

    assert first.headers["x-context-basis"] == "estimated"
    assert second.headers["x-context-basis"] == "anchored"
    assert first.headers["x-context-session"] == second.headers["x-context-session"]
    assert first.headers["x-context-removed-tokens"] == "0"
    assert int(first.headers["x-context-estimated-input-tokens"]) == first.json()["usage"]["prompt_tokens"]
    assert int(second.headers["x-context-estimated-input-tokens"]) == second.json()["usage"]["prompt_tokens"]
    assert "x-context-compacted" not in first.headers


async def test_the_headers_of_the_upstream_stay_beside_ours():
    provider = a_provider()
    provider.refuse_next(429, {"error": {"message": "slow down"}}, headers=[("retry-after", "7")])
    async with a_house(provider) as house:
        answer = await house.chat([user("hello")])

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.headers["x-context-basis"] == "estimated"


async def test_calls_that_nobody_models_are_relayed_and_told_nothing():
    provider = a_provider()
    async with a_house(provider) as house:
        models = await house.http.get("/v1/models")
        other = await house.http.post("/v1/embeddings", json={"input": "x"})
        turns = await house.turns()

    assert models.status_code == 200
    assert other.status_code == 404
    assert "x-context-session" not in models.headers
    assert turns == []


# What is remembered


@pytest.mark.parametrize("stream", [False, True])
async def test_r2_each_answer_moves_the_anchor_streamed_or_not(stream):
    async with a_house(a_provider()) as house:
        history = [user("one")]
        for number in range(3):
            await house.chat(history, stream=stream)
            history += [said(f"You said: {history[-1]['content']}"), user(f"number {number}")]
        turns = await settled(house, 3)

    assert [turn.turn for turn in turns] == [1, 2, 3]
    assert [turn.basis for turn in turns] == ["estimated", "anchored", "anchored"]
    assert [turn.error for turn in turns] == [0, 0, 0]
    assert {turn.outcome for turn in turns} == {"ok"}


async def test_c47_a_retry_is_the_same_turn():
    async with a_house(a_provider()) as house:
        for _ in range(3):
            await house.chat([user("one")])
        turns = await settled(house, 3)

    assert {turn.turn for turn in turns} == {1}
    assert len({turn.session for turn in turns}) == 1


async def test_callers_with_different_keys_never_share():
    async with a_house(a_provider()) as house:
        await house.chat([user("one")], key="k1")
        grown = [user("one"), said("You said: one"), user("two")]
        stranger = await house.chat(grown, key="k2")
        owner = await house.chat(grown, key="k1")

    assert stranger.headers["x-context-basis"] == "estimated"
    assert owner.headers["x-context-basis"] == "anchored"
    assert stranger.headers["x-context-session"] != owner.headers["x-context-session"]


async def test_errors_do_not_move_the_anchor():
    provider = a_provider()
    async with a_house(provider) as house:
        await house.chat([user("one")])
        provider.refuse_next(500, {"error": {"message": "oops"}})
        grown = [user("one"), said("You said: one"), user("two")]
        failed = await house.chat(grown)
        again = await house.chat(grown)
        turns = await settled(house, 3)

    assert (failed.status_code, again.status_code) == (500, 200)
    assert [turn.outcome for turn in turns] == ["ok", "error", "ok"]
    assert [turn.turn for turn in turns] == [1, 2, 2]
    assert again.headers["x-context-basis"] == "anchored"


async def test_c46_a_cut_stream_is_cut_for_the_client_and_moves_no_anchor():
    provider = a_provider(answers=lambda *_: Answer(text="word " * 200))
    async with a_house(provider) as house:
        await house.chat([user("one")])
        grown = [user("one"), said("word " * 200), user("two")]
        provider.cut_next(3)
        with pytest.raises(Exception, match=r"incomplete|closed"):
            await house.chat(grown, stream=True)
        turns = await settled(house, 2)
        later = await house.chat([*grown, said("word word"), user("three")])

    assert turns[1].outcome == "truncated"
    assert turns[1].usage.input_tokens is None
    assert later.headers["x-context-basis"] == "anchored"
    assert [turn.turn for turn in turns] == [1, 2]


async def test_r25_a_client_that_leaves_closes_the_upstream_and_is_settled():
    provider = a_provider(answers=lambda *_: Answer(text="word " * 2000))
    provider.pause_s = 0.02
    async with a_house(provider) as house:
        body = {"model": "gpt-4o", "messages": [user("one")], "stream": True}
        async with house.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            async for _ in answer.aiter_raw():
                break
        (turn,) = await settled(house, 1)
        for _ in range(100):
            if provider.received[0].abandoned:
                break
            await asyncio.sleep(0.01)

    assert provider.received[0].abandoned
    assert turn.outcome == "client_closed"


async def test_a_client_that_leaves_when_it_has_the_last_event_has_its_answer():
    """As Codex does, while the end of the stream is still on its way."""
    provider, over = a_provider(), asyncio.Event()

    async def lingering(scope, receive, send):
        async def held(message):
            if message["type"] == "http.response.body" and not message.get("more_body"):
                await over.wait()
            await send(message)

        await provider(scope, receive, held)

    async with a_house(lingering) as house:
        body = {"model": "gpt-4o", "input": "one", "stream": True}
        async with house.http.stream("POST", "/v1/responses", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith('data: {"type":"response.completed"'):
                    break
        (turn,) = await settled(house, 1)
        over.set()

    assert (turn.outcome, turn.usage.input_tokens) == ("ok", turn.estimated)


async def test_r25_a_client_that_leaves_before_the_head_is_settled_too():
    provider = a_provider()
    provider.delay_s = 5.0
    async with a_house(provider) as house:
        calling = asyncio.ensure_future(house.chat([user("one")]))
        while not provider.received:
            await asyncio.sleep(0.01)
        calling.cancel()
        (turn,) = await settled(house, 1)

    assert turn.outcome == "client_closed"
    assert turn.status == 0


async def test_an_upstream_that_is_not_there_is_an_error_row():
    async with a_house(None, base_url="http://127.0.0.1:9") as house:
        answer = await house.chat([user("one")])
        (turn,) = await settled(house, 1)

    assert answer.status_code == 502
    assert turn.outcome == "error"
    assert turn.error_type
    assert turn.usage.input_tokens is None


async def test_a_key_in_gemini_urls_tells_callers_apart():
    body = {"contents": [{"role": "user", "parts": [{"text": "one"}]}]}
    async with a_house(a_provider()) as house:
        path = "/v1beta/models/gemini-2.5-flash:generateContent"
        answers = [await house.http.post(path, params={"key": key}, json=body) for key in ("a", "b", "a")]

    sessions = [answer.headers["x-context-session"] for answer in answers]
    assert sessions[0] == sessions[2] != sessions[1]


# Usage that we asked for


async def test_c50_usage_that_the_client_did_not_ask_for_is_counted_and_hidden():
    provider = a_provider()
    async with a_house(provider) as house:
        answer = await house.chat([user("hello")], stream=True)
        (turn,) = await settled(house, 1)
    async with a_house(a_provider()) as plain:
        direct = await plain.chat([user("hello")], stream=True, headers={"x-context-mode": "off"})

    assert json.loads(provider.received[0].body)["stream_options"] == {"include_usage": True}
    assert b'"usage":{' not in answer.content
    assert answer.content.endswith(b"data: [DONE]\n\n")
    assert turn.usage.input_tokens > 0
    assert len(answer.content.split(b"\n\n")) == len(direct.content.split(b"\n\n"))


@pytest.mark.parametrize(
    "kind", ["text/event-stream", "text/plain; charset=utf-8", "application/octet-stream", "application/json"]
)
async def test_usage_that_the_client_did_not_ask_for_is_hidden_whatever_the_stream_is_called(kind):
    said_it = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n'
    end = b"data: [DONE]\n\n"

    async def upstream(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
        for piece in (said_it, usage, end, b""):
            await send({"type": "http.response.body", "body": piece, "more_body": bool(piece)})

    async with a_house(upstream) as house:
        answer = await house.chat([user("hello")], stream=True)
        (turn,) = await settled(house, 1)

    assert answer.content == said_it + end
    assert (turn.outcome, turn.usage.input_tokens, turn.usage.output_tokens) == ("ok", 10, 5)


async def test_a_json_text_in_a_streams_place_passes_though_usage_was_asked_for():
    async def upstream(scope, receive, send):
        await answering(200, chat_answer("x"))(receive, send)

    async with a_house(upstream) as house:
        answer = await house.chat([user("hello")], stream=True)
        (turn,) = await settled(house, 1)

    assert answer.json() == chat_answer("x")
    assert answer.headers["content-length"] == str(len(answer.content))
    assert (turn.outcome, turn.usage.input_tokens) == ("ok", 1000)


async def test_c50_usage_that_the_client_asked_for_stays():
    async with a_house(a_provider()) as house:
        answer = await house.chat([user("hello")], stream=True, stream_options={"include_usage": True})

    assert b'"usage":{' in answer.content


async def test_usage_is_not_asked_for_where_the_configuration_says_so():
    provider = a_provider()
    async with a_house(provider, ask_usage=False) as house:
        await house.chat([user("hello")], stream=True)
        (turn,) = await settled(house, 1)

    assert "stream_options" not in json.loads(provider.received[0].body)
    assert turn.usage.input_tokens is None
    assert turn.outcome == "ok"


# The log


async def test_r4_one_event_a_call_with_fixed_fields_and_no_content():
    with capture_logs() as logs:
        async with a_house(a_provider(), prune=EAGER, compact=OFF) as house:
            await house.chat(SEEN, key="sk-very-secret")

    (event,) = [entry for entry in logs if entry["event"] == "context_estimate"]
    assert event.keys() >= FIELDS
    assert event["edits"] == {"clear": 1}
    assert event["actual"] == event["input_tokens"]
    assert event["error"] == event["estimated"] - event["actual"] == 0
    assert "sk-very-secret" not in str(logs)
    assert "alpha beta" not in str(logs)


async def test_c6_an_answer_without_usage_has_no_error_figure():
    upstream = answering(200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]})

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await receive()
            await upstream(receive, send)

    with capture_logs() as logs:
        async with a_house(app) as house:
            await house.chat([user("hello")])

    (event,) = [entry for entry in logs if entry["event"] == "context_estimate"]
    assert (event["actual"], event["error"], event["error_percent"]) == (None, None, None)


@pytest.mark.parametrize("tokens", [0, 10_000_000])
async def test_c42_c43_impossible_usage_is_passed_on_and_anchors_nothing(tokens):
    answer = chat_answer("fine") | {"usage": {"prompt_tokens": tokens, "completion_tokens": 5}}

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await receive()
            await answering(200, answer)(receive, send)

    async with a_house(app, window=128_000) as house:
        first = await house.chat([user("hello")])
        later = await house.chat([user("hello"), said("fine"), user("so")])

    assert first.json()["usage"]["prompt_tokens"] == tokens
    assert later.headers["x-context-basis"] == "estimated"


# Many at once


async def test_twenty_calls_at_once_do_not_meet():
    async with a_house(a_provider()) as house:
        answers = await asyncio.gather(*(house.chat([user(f"question {n}")]) for n in range(20)))
        turns = await settled(house, 20)

    assert len({answer.headers["x-context-session"] for answer in answers}) == 20
    assert [answer.json()["choices"][0]["message"]["content"] for answer in answers] == [
        f"You said: question {n}" for n in range(20)
    ]
    assert {turn.turn for turn in turns} == {1}


async def test_r43_what_was_removed_shows_in_body_usage_and_row():
    """Also where the provider reports no cached tokens at all."""
    provider = a_provider()
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        plain = await house.chat(SEEN, key="another", headers={"x-context-mode": "off"})
        pruned = await house.chat(SEEN)
        turns = await settled(house, 2)

    saved = plain.json()["usage"]["prompt_tokens"] - pruned.json()["usage"]["prompt_tokens"]
    assert len(provider.received[1].body) < len(provider.received[0].body)
    assert saved == int(pruned.headers["x-context-removed-tokens"]) == turns[1].removed_tokens > 1500
    assert messages_of(provider.received[1].body)[-1] == SEEN[-1]


async def test_r18_each_event_reaches_the_client_before_the_next_one_is_there():
    provider = a_provider(answers=lambda *_: Answer(text="word " * 200))
    provider.pause_s = 0.05
    body = {"model": "gpt-4o", "messages": [user("one")], "stream": True}
    loop = asyncio.get_running_loop()
    async with (
        a_house(provider) as house,
        house.http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        moments = [loop.time() async for chunk in answer.aiter_raw() if b"content" in chunk]

    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert len(moments) >= 5
    assert max(gaps[:5]) > 0.02
    assert moments[-1] - moments[0] > 0.15


# What stays of a call


@pytest.fixture
def only_new_objects():
    """Older ones are not listed: to look through all that other tests have left takes seconds, in which streams time out."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_objects")
async def test_while_its_answer_streams_a_call_holds_no_body():
    provider = a_provider(answers=lambda *_: Answer(text="word " * 200))
    provider.pause_s = 0.02
    body = {"model": "gpt-4o", "messages": [*rounds(LONG, LONG), said("read it"), user("long wait")], "stream": True}
    async with a_house(provider, prune=EAGER) as house:
        async with house.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            held = [one for one in gc.get_objects() if isinstance(one, View | Ready) and b"long wait" in one.body]
            await answer.aread()
        (turn,) = await settled(house, 1)

    assert not held
    assert turn.outcome == "ok"
    assert turn.new_edits


def calls_in_memory():
    return [one for one in gc.get_objects() if isinstance(one, Exchange)]


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def whole(house, provider):
    await house.chat(SEEN)


async def streamed(house, provider):
    await house.chat(SEEN, stream=True)


async def broken(house, provider):
    await house.http.post("/v1/chat/completions", content=b'{"model": "gpt-4o", "messages": [')


async def unmodelled(house, provider):
    await house.http.get("/v1/models")


async def refused_twice(house, provider):
    for _ in range(2):
        provider.refuse_next(400, {"error": {"message": "no"}})
    await house.chat([*rounds(LONG, LONG), said("read it"), user("next")])


async def cut(house, provider):
    provider.cut_next(1)
    with pytest.raises(httpx.RemoteProtocolError):
        await house.chat(SEEN, stream=True)


async def left(house, provider):
    body = {"model": "gpt-4o", "messages": SEEN, "stream": True}
    async with house.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for _ in answer.aiter_raw():
            break


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", [whole, streamed, broken, unmodelled, refused_twice, cut, left])
async def test_a_call_that_has_ended_is_gone_without_the_garbage_collector(end):
    """With its bodies: garbage that waits for a collection is most of what a busy process holds."""
    provider = a_provider(answers=lambda *_: Answer(text="word " * 200))
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        await end(house, provider)
        for _ in range(3000):
            if not calls_in_memory():
                break
            await asyncio.sleep(0.01)

        assert not calls_in_memory()


@pytest.mark.usefixtures("no_collector")
async def test_a_call_to_an_upstream_that_is_not_there_is_gone_too():
    async with a_house(None, base_url="http://127.0.0.1:9") as house:
        await house.chat([user("one")])
        for _ in range(3000):
            if not calls_in_memory():
                break
            await asyncio.sleep(0.01)

        assert not calls_in_memory()


async def test_a_note_at_the_end_that_is_not_sent_again_costs_no_memory():
    async with a_house(a_provider(), prune=EAGER) as house:
        await house.chat([*SEEN, user("it is ten o'clock")])
        await settled(house, 1)
        await house.chat([*SEEN, said("fine"), user("and now?"), user("it is eleven o'clock")])
        first, second = await settled(house, 2)

    assert (first.turn, second.turn) == (1, 2)
    assert (first.session, second.basis) == (second.session, "anchored")
    assert (first.new_edits, second.edits, second.new_edits) == ({"clear": 1}, {"clear": 1}, {})
