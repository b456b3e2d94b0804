"""The official OpenAI SDK in front of the proxy sees what it would see without it."""

import asyncio
import json

import openai
import pytest

from proxy.demo.provider import Answer, Rules
from proxy.settings.values import Compact, Prune
from tests.journeys.world import MODEL, a_world, comparable, thinking

pytestmark = pytest.mark.anyio

TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": {"type": "object", "properties": {}}},
    }
    for name in ("lookup", "weather")
]
RESPONSES_TOOLS = [{"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}]


def a_client(url, kind=openai.AsyncOpenAI, **more):
    return kind(**{"base_url": f"{url}/v1", "api_key": "sk-test", "max_retries": 0, **more})


async def both(world, talk):
    """What `talk(client)` hears directly and through the proxy."""
    heard = []
    for url in (world.direct_url, world.proxy_url):
        async with a_client(url) as client:
            heard.append(await talk(client))
    return heard


async def both_sync(world, talk):
    heard = []
    for url in (world.direct_url, world.proxy_url):
        with a_client(url, openai.OpenAI) as client:
            heard.append(await asyncio.to_thread(talk, client))
    return heard


def tool_results(message):
    return [
        {"role": "tool", "tool_call_id": call.id, "content": f"result of {call.function.name}"}
        for call in message.tool_calls
    ]


async def an_agent(client):
    """Three calls: a wish for two tools, their results, a farewell."""
    history = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "please call lookup and call weather"},
    ]
    heard = []
    for _ in range(2):
        answer = await client.chat.completions.create(model=MODEL, messages=history, tools=TOOLS)
        heard.append(comparable(answer))
        message = answer.choices[0].message
        history.append(message.model_dump(exclude_none=True))
        history += tool_results(message) if message.tool_calls else [{"role": "user", "content": "thanks"}]
    answer = await client.chat.completions.create(model=MODEL, messages=history, tools=TOOLS)
    return [*heard, comparable(answer)]


async def a_streaming_agent(client):
    history = [{"role": "user", "content": "please call lookup"}]
    heard = []
    for _ in range(3):
        async with client.chat.completions.stream(model=MODEL, messages=history, tools=TOOLS) as stream:
            events = [event.type async for event in stream]
            final = await stream.get_final_completion()
        heard.append((events, comparable(final)))
        message = final.choices[0].message
        history.append(
            {key: value for key, value in message.to_dict().items() if key in ("role", "content", "tool_calls")}
        )
        for call in history[-1].get("tool_calls") or ():
            call["function"].pop("parsed_arguments", None)
        history += tool_results(message) if message.tool_calls else [{"role": "user", "content": "thanks"}]
    return heard


@pytest.mark.parametrize("answers", [None, thinking], ids=["plain", "thinking"])
@pytest.mark.parametrize("talk", [an_agent, a_streaming_agent])
async def test_an_agent_with_tools_hears_the_same(talk, answers):
    async with a_world(provider={"answers": answers} if answers else {}) as world:
        direct, proxied = await both(world, talk)

    assert proxied == direct
    assert len(world.behind.received) == len(world.direct.received) == 3


async def test_the_blocking_client_hears_the_same():
    def talk(client):
        history = [{"role": "user", "content": "hello"}]
        whole = client.chat.completions.create(model=MODEL, messages=history)
        history += [whole.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "again"}]
        chunks = list(client.chat.completions.create(model=MODEL, messages=history, stream=True))
        return [comparable(whole), *map(comparable, chunks)]

    async with a_world() as world:
        direct, proxied = await both_sync(world, talk)

    assert proxied == direct
    assert len(direct) > 2


@pytest.mark.parametrize("asked", [True, False])
async def test_c50_usage_is_seen_exactly_where_it_was_asked_for(asked):
    async def talk(client):
        options = {"stream_options": {"include_usage": True}} if asked else {}
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True, **options
        )
        return [comparable(chunk) async for chunk in stream]

    async with a_world() as world:
        direct, proxied = await both(world, talk)

    assert proxied == direct
    assert any(chunk.get("usage") for chunk in proxied) is asked
    assert json.loads(world.behind.received[0].body)["stream_options"] == {"include_usage": True}


async def test_c51_a_host_without_stream_options_is_no_trouble():
    async def talk(client):
        for _ in range(2):
            stream = await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True
            )
            heard = [comparable(chunk) async for chunk in stream]
        return heard

    async with a_world(provider={"rules": Rules(stream_options=False)}) as world:
        direct, proxied = await both(world, talk)

    assert [(one["choices"], one["model"]) for one in proxied] == [(one["choices"], one["model"]) for one in direct]
    assert len(world.behind.received) == 3


async def test_raw_streaming_response_shows_headers_and_lines():
    async def talk(client):
        async with client.chat.completions.with_streaming_response.create(
            model=MODEL,
            messages=[{"role": "user", "content": "hello"}],
            stream=True,
            stream_options={"include_usage": True},
        ) as answer:
            lines = [line async for line in answer.iter_lines()]
            return dict(answer.headers), lines

    async with a_world() as world:
        (_, direct), (headers, proxied) = await both(world, talk)

    assert [line.partition(',"created"')[0] for line in proxied] == [line.partition(',"created"')[0] for line in direct]
    assert headers["x-context-basis"] == "estimated"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
async def test_errors_arrive_as_the_providers_own(status, kind):
    body = {"error": {"message": "no such thing", "type": "some_error", "param": "p", "code": "c"}}

    async def talk(client):
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hello"}])
        return caught.value.status_code, caught.value.body, str(caught.value), caught.value.request_id

    async with a_world() as world:
        for provider in (world.direct, world.behind):
            provider.refuse_next(status, body)
        direct, proxied = await both(world, talk)

    assert proxied == direct
    assert proxied[3] == "req_loopback"


async def test_the_sdks_own_retry_is_one_turn():
    async with a_world() as world:
        world.behind.refuse_next(500, {"error": {"message": "again"}}, times=1, headers=[("retry-after-ms", "1")])
        async with a_client(world.proxy_url, max_retries=1) as client:
            answer = await client.chat.completions.with_raw_response.create(
                model=MODEL, messages=[{"role": "user", "content": "hello"}]
            )

    assert answer.parse().choices[0].message.content == "You said: hello"
    assert len(world.behind.received) == 2
    assert answer.headers["x-context-basis"] == "estimated"


async def test_an_upstream_that_is_away_is_an_api_error():
    async with a_world(upstream={"base_url": "http://127.0.0.1:9"}) as world, a_client(world.proxy_url) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hello"}])

    assert caught.value.status_code == 502
    assert caught.value.body["type"]


async def test_r25_leaving_a_stream_closes_the_providers():
    answers = lambda *_: Answer(text="word " * 2000)
    async with a_world(provider={"answers": answers}) as world:
        world.behind.pause_s = 0.02
        async with a_client(world.proxy_url) as client:
            stream = await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True
            )
            async for _ in stream:
                break
            await stream.close()
        for _ in range(200):
            if world.behind.received[0].abandoned:
                break
            await asyncio.sleep(0.01)

    assert world.behind.received[0].abandoned


@pytest.mark.parametrize("mode", ["off", "observe", "prune"])
async def test_context_headers_stop_at_the_proxy_and_come_back_from_it(mode):
    async with a_world() as world, a_client(world.proxy_url) as client:
        answer = await client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=[{"role": "user", "content": "hello"}],
            extra_headers={"x-context-mode": mode, "x-context-session": "mine", "x-other": "stays"},
        )

    (record,) = world.behind.received
    assert not [name for name in record.headers if name.startswith("x-context")]
    assert record.headers["x-other"] == "stays"
    assert int(answer.headers["x-context-estimated-input-tokens"]) > 0
    assert answer.headers["x-context-session"]


async def test_the_body_is_what_the_sdk_wrote_byte_for_byte():
    async def talk(client):
        await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "grüße 🙂"}],
            temperature=0.5,
            extra_body={"unknown": [1, None]},
        )

    async with a_world() as world:
        await both(world, talk)

    assert world.behind.received[0].body == world.direct.received[0].body


async def test_r43_an_agent_with_large_results_is_pruned_and_never_notices():
    big = {"answers": thinking}
    prune = Prune(policy="always", protect_tokens=0, minimum_tokens=0)

    async def talk(client):
        history = [{"role": "user", "content": "please call lookup"}]
        heard = []
        for number in range(6):
            answer = await client.chat.completions.create(model=MODEL, messages=history, tools=TOOLS)
            message = answer.choices[0].message
            heard.append((message.content, answer.choices[0].finish_reason, answer.usage.prompt_tokens))
            history.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                text = f"line {number} of a long file\n" * 400
                history.append({"role": "tool", "tool_call_id": call.id, "content": text})
            if not message.tool_calls:
                history.append({"role": "user", "content": "please call lookup again"})
        return heard

    async with a_world(provider=big, prune=prune, compact=Compact(trigger="off")) as world:
        direct, proxied = await both(world, talk)

    assert [one[:2] for one in proxied] == [one[:2] for one in direct]
    assert proxied[-1][2] < direct[-1][2] / 2


# Responses


async def a_responses_agent(client):
    history = [{"role": "user", "content": "please call lookup"}]
    heard = []
    for _ in range(2):
        answer = await client.responses.create(model=MODEL, input=history, tools=RESPONSES_TOOLS, store=False)
        heard.append(comparable(answer))
        history += [item.model_dump(exclude_none=True) for item in answer.output]
        history += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "found"}
            for item in answer.output
            if item.type == "function_call"
        ] or [{"role": "user", "content": "thanks"}]
    return heard


async def a_streaming_responses_agent(client):
    async with client.responses.stream(model=MODEL, input="hello") as stream:
        events = [event.type async for event in stream]
        final = await stream.get_final_response()
    again = await client.responses.create(model=MODEL, input="more", previous_response_id=final.id)
    return [events, comparable(final), comparable(again)]


@pytest.mark.parametrize("answers", [None, thinking], ids=["plain", "thinking"])
@pytest.mark.parametrize("talk", [a_responses_agent, a_streaming_responses_agent])
async def test_a_responses_client_hears_the_same(talk, answers):
    async with a_world(provider={"answers": answers} if answers else {}) as world:
        direct, proxied = await both(world, talk)

    assert proxied == direct
