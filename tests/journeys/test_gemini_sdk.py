"""The official Google SDK in front of the proxy sees what it would see without it."""

import asyncio

import pytest
from google import genai
from google.genai import errors, types

from proxy.demo.provider import Rules
from tests.journeys.world import a_world, comparable, thinking

pytestmark = [
    pytest.mark.anyio,
    # The SDK's own way of using aiohttp.
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

MODEL = "gemini-2.5-flash"
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name="lookup", description="lookup", parameters_json_schema={"type": "object"})
    ]
)


def a_client(url):
    return genai.Client(api_key="test-key", http_options=types.HttpOptions(base_url=url, timeout=10_000))


async def both(world, talk):
    heard = []
    for url in (world.direct_url, world.proxy_url):
        client = a_client(url)
        try:
            heard.append(await talk(client))
        finally:
            await client.aio.aclose()
            client.close()
    return heard


def spoken(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


def an_agent(*, stream):
    async def talk(client):
        config = types.GenerateContentConfig(
            tools=[TOOL], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
        )
        history = [spoken("please call lookup")]
        heard = []
        for _ in range(3):
            if stream:
                chunks = [
                    chunk
                    async for chunk in await client.aio.models.generate_content_stream(
                        model=MODEL, contents=history, config=config
                    )
                ]
                heard.append([comparable(chunk) for chunk in chunks])
                parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
            else:
                answer = await client.aio.models.generate_content(model=MODEL, contents=history, config=config)
                heard.append(comparable(answer))
                parts = answer.candidates[0].content.parts
            history.append(types.Content(role="model", parts=parts))
            results = [
                types.Part.from_function_response(name=part.function_call.name, response={"result": "found"})
                for part in parts
                if part.function_call
            ]
            history.append(types.Content(role="user", parts=results) if results else spoken("please call lookup"))
        return heard

    return talk


@pytest.mark.parametrize("answers", [None, thinking], ids=["plain", "thinking"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_with_tools_hears_the_same(stream, answers):
    provider = {"rules": Rules(signatures_back=True)} | ({"answers": answers} if answers else {})
    async with a_world(provider=provider) as world:
        direct, proxied = await both(world, an_agent(stream=stream))

    assert proxied == direct
    assert len(world.behind.received) == 3


async def test_the_blocking_client_hears_the_same():
    def talk(client):
        whole = client.models.generate_content(model=MODEL, contents="hello")
        chunks = list(client.models.generate_content_stream(model=MODEL, contents="hello"))
        return [comparable(whole), *map(comparable, chunks)]

    async def in_thread(client):
        return await asyncio.to_thread(talk, client)

    async with a_world() as world:
        direct, proxied = await both(world, in_thread)

    assert proxied == direct


async def test_a_chat_is_one_conversation_with_exact_predictions():
    async with a_world() as world:

        async def talk(client):
            chat = client.aio.chats.create(model=MODEL)
            found = []
            for text in ("hello", "again", "and again"):
                answer = await chat.send_message(text)
                found.append((answer.text, answer.sdk_http_response.headers.get("x-context-basis")))
            return found

        direct, proxied = await both(world, talk)

    assert [text for text, _ in proxied] == [text for text, _ in direct]
    assert [basis for _, basis in proxied] == ["estimated", "anchored", "anchored"]


async def test_count_tokens_hears_the_same():
    async def talk(client):
        return comparable(await client.aio.models.count_tokens(model=MODEL, contents="hello"))

    async with a_world() as world:
        direct, proxied = await both(world, talk)

    assert proxied == direct


async def test_errors_arrive_as_the_providers_own():
    body = {"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}

    async def talk(client):
        with pytest.raises(errors.ClientError) as caught:
            await client.aio.models.generate_content(model=MODEL, contents="hello")
        return caught.value.code, caught.value.message, caught.value.status

    async with a_world() as world:
        for provider in (world.direct, world.behind):
            provider.refuse_next(400, body)
        direct, proxied = await both(world, talk)

    assert proxied == direct == (400, "API key not valid", "INVALID_ARGUMENT")
