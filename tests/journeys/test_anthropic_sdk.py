"""The official Anthropic SDK in front of the proxy sees what it would see without it."""

import asyncio

import anthropic
import pytest

from proxy.demo.provider import Answer, Rules
from proxy.settings.values import Compact, Prune
from tests.journeys.world import a_world, comparable, thinking

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-5"
TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("lookup", "weather")
]
THINKS = {"type": "enabled", "budget_tokens": 1024}


def a_client(url, kind=anthropic.AsyncAnthropic, **more):
    return kind(**{"base_url": url, "api_key": "sk-ant-test", "max_retries": 0, **more})


async def both(world, talk):
    heard = []
    for url in (world.direct_url, world.proxy_url):
        async with a_client(url) as client:
            heard.append(await talk(client))
    return heard


def next_message(message, text="found"):
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": text}
        for block in message.content
        if block.type == "tool_use"
    ]
    return {"role": "user", "content": results or "please call weather"}


def an_agent(*, stream, **fields):
    async def talk(client):
        history = [{"role": "user", "content": "please call lookup and call weather"}]
        heard = []
        for _ in range(4):
            request = {
                "model": MODEL,
                "max_tokens": 2000,
                "messages": history,
                "tools": TOOLS,
                "system": "be brief",
                **fields,
            }
            if stream:
                async with client.messages.stream(**request) as events:
                    heard.append([event.type async for event in events])
                    message = await events.get_final_message()
            else:
                message = await client.messages.create(**request)
            heard.append(comparable(message))
            content = [block.model_dump(exclude_none=True) for block in message.content]
            for block in content:
                for name in ("caller", "parsed_output", "citations"):
                    block.pop(name, None)
            history += [{"role": "assistant", "content": content}, next_message(message)]
        return heard

    return talk


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_with_tools_hears_the_same(stream):
    async with a_world() as world:
        direct, proxied = await both(world, an_agent(stream=stream))

    assert proxied == direct
    assert len(world.behind.received) == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_a_thinking_agent_hears_the_same(stream):
    async with a_world(provider={"answers": thinking}) as world:
        direct, proxied = await both(world, an_agent(stream=stream, thinking=THINKS))

    assert proxied == direct
    assert "signature" in str(proxied)


async def test_c55_signed_thinking_is_never_refused_for_what_we_pruned():
    """A provider that binds thinking to everything before it, and an agent whose results would all go."""
    rules = Rules(prefix_check=True)
    prune = Prune(policy="always", protect_tokens=0, minimum_tokens=0)

    async def talk(client):
        history = [{"role": "user", "content": "please call lookup"}]
        for number in range(5):
            message = await client.messages.create(
                model="claude-sonnet-5-5", max_tokens=2000, messages=history, tools=TOOLS, thinking=THINKS
            )
            content = [
                {name: value for name, value in block.model_dump(exclude_none=True).items() if name != "caller"}
                for block in message.content
            ]
            history += [
                {"role": "assistant", "content": content},
                next_message(message, f"line {number} of it\n" * 300),
            ]
        return message.stop_reason

    async with a_world(
        provider={"answers": thinking, "rules": rules}, prune=prune, compact=Compact(trigger="off")
    ) as world:
        direct, proxied = await both(world, talk)

    assert proxied == direct
    assert {record.status for record in world.behind.received} == {200}


async def test_the_blocking_client_hears_the_same():
    def talk(client):
        history = [{"role": "user", "content": "hello"}]
        whole = client.messages.create(model=MODEL, max_tokens=100, messages=history)
        history += [{"role": "assistant", "content": whole.content[0].text}, {"role": "user", "content": "again"}]
        with client.messages.stream(model=MODEL, max_tokens=100, messages=history) as stream:
            text = "".join(stream.text_stream)
            return [comparable(whole), text, comparable(stream.get_final_message())]

    async with a_world() as world:
        heard = []
        for url in (world.direct_url, world.proxy_url):
            with a_client(url, anthropic.Anthropic) as client:
                heard.append(await asyncio.to_thread(talk, client))

    assert heard[0] == heard[1]


async def test_count_tokens_hears_the_same():
    async def talk(client):
        return comparable(
            await client.messages.count_tokens(
                model=MODEL, messages=[{"role": "user", "content": "hello"}], tools=TOOLS
            )
        )

    async with a_world() as world:
        direct, proxied = await both(world, talk)

    assert proxied == direct
    assert proxied["input_tokens"] > 0


@pytest.mark.parametrize("status", [400, 401, 429, 529])
async def test_errors_arrive_as_the_providers_own(status):
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}

    async def talk(client):
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hello"}])
        return type(caught.value), caught.value.status_code, caught.value.body

    async with a_world() as world:
        for provider in (world.direct, world.behind):
            provider.refuse_next(status, body)
        direct, proxied = await both(world, talk)

    assert proxied == direct


async def test_a_cut_stream_is_an_error_for_the_client_as_without_the_proxy():
    async def talk(client):
        with pytest.raises(Exception) as caught:
            async with client.messages.stream(
                model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "hello"}]
            ) as stream:
                await stream.get_final_message()
        return type(caught.value)

    async with a_world(provider={"answers": lambda *_: Answer(text="word " * 300)}) as world:
        for provider in (world.direct, world.behind):
            provider.cut_next(4)
        direct, proxied = await both(world, talk)

    assert proxied is direct


async def test_cache_marks_that_move_do_not_start_a_new_conversation():
    def marked(history):
        *earlier, last = history
        block = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
        return [*earlier, {"role": "user", "content": [block]}]

    async with a_world() as world, a_client(world.proxy_url) as client:
        history = [{"role": "user", "content": "hello"}]
        sessions, bases = [], []
        for text in ("again", "and again"):
            answer = await client.messages.with_raw_response.create(
                model=MODEL, max_tokens=100, messages=marked(history)
            )
            sessions.append(answer.headers["x-context-session"])
            bases.append(answer.headers["x-context-basis"])
            said = (await answer.parse()).content[0].text
            history += [{"role": "assistant", "content": said}, {"role": "user", "content": text}]

    assert bases == ["estimated", "anchored"]
    assert len(set(sessions)) == 1
