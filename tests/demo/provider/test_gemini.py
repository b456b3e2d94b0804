"""The Gemini API of the loopback provider keeps the vendor's rules."""

import json

import httpx
import pytest
from google import genai

from proxy.demo.provider import Answer, Call, Provider, Rules
from tests.demo.builders import count
from tests.serving import serving

pytestmark = pytest.mark.anyio


def said(role, *parts):
    return {"role": role, "parts": list(parts)}


def text(words="one two three"):
    return {"text": words}


def call(name="look", **extra):
    return {"functionCall": {"name": name, "args": {}}, **extra}


def result(name="look"):
    return {"functionResponse": {"name": name, "response": {"output": "found it"}}}


async def post(provider, contents, verb="generateContent", query="", **fields):
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        path = f"/v1beta/models/demo-model:{verb}{query}"
        return await client.post(path, json={"contents": contents, **fields})


async def test_contents_are_counted_like_messages():
    contents = [said("user", text()), said("model", call()), said("user", result())]
    usage = (await post(Provider(count), contents, systemInstruction={"parts": [text("be kind")]})).json()

    assert usage["usageMetadata"]["promptTokenCount"] == (2 + 1) + (3 + 1) + (2 + 1) + (2 + 1)


async def test_counting_agrees_with_the_bill():
    provider = Provider(count)
    whole = {"contents": [said("user", text())], "systemInstruction": {"parts": [text()]}}
    billed = (await post(provider, **whole)).json()["usageMetadata"]["promptTokenCount"]
    named = {"model": "models/demo-model", **whole}
    counted = await post(provider, [], "countTokens", generateContentRequest=named)

    assert counted.json()["totalTokens"] == billed


async def test_only_contents_are_counted_alone_and_a_whole_request_names_its_model():
    contents = [said("user", text())]
    flat = await post(Provider(count), contents, "countTokens", tools=[])
    unnamed = await post(Provider(count), [], "countTokens", generateContentRequest={"contents": contents})

    assert (flat.status_code, unnamed.status_code) == (400, 400)
    assert 'Unknown name "tools"' in flat.json()["error"]["message"]


async def test_thoughts_are_counted_beside_the_answer():
    def answers(asked, headers):
        return Answer(text="a b", reasoning="x y z")

    usage = (await post(Provider(count, answers=answers), [said("user", text())])).json()["usageMetadata"]

    assert (usage["candidatesTokenCount"], usage["thoughtsTokenCount"]) == (2, 3)
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + 5


BROKEN = [
    (
        [said("user", text()), said("model", call(), call()), said("user", result())],
        "number of function response parts",
    ),
    ([said("user", text()), said("model", call()), said("user", text())], "number of function response parts"),
    ([said("user", result())], "function response turn comes immediately after a function call turn"),
    ([said("model", call()), said("user", result())], "function call turn comes immediately after a user turn"),
    ([said("tool", text())], "Please use a valid role: user, model."),
    ([said("user")], "contents.parts must not be empty"),
    ([said("user", {})], "required oneof field 'data'"),
    ([], "contents is not specified"),
]


@pytest.mark.parametrize(("contents", "expected"), BROKEN)
async def test_broken_histories_are_refused(contents, expected):
    answer = await post(Provider(count), contents)

    assert answer.status_code == 400
    assert expected in answer.json()["error"]["message"]
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"


async def test_a_prompt_over_the_window_names_both_numbers():
    answer = await post(Provider(count, window=20), [said("user", text("w " * 30))])

    assert "token count (31) exceeds the maximum number of tokens allowed (20)" in answer.json()["error"]["message"]


async def test_only_calls_of_the_current_turn_need_their_signature():
    provider = Provider(count, rules=Rules(signatures_back=True))
    old = [said("user", text()), said("model", call()), said("user", result()), said("model", text())]
    past = await post(provider, [*old, said("user", text())])
    bare = await post(provider, [*old, said("user", text()), said("model", call("seek")), said("user", result("seek"))])
    signed = call("seek", thoughtSignature="abc")
    good = await post(
        provider, [*old, said("user", text()), said("model", signed, call()), said("user", result(), result())]
    )

    assert past.status_code == good.status_code == 200
    assert "function call `default_api:seek` , position 2." in bare.json()["error"]["message"]


async def test_a_stream_is_events_or_one_array():
    def answers(asked, headers):
        return Answer(text="one two three four", calls=(Call(call_id="c", name="look", arguments='{"a":1}'),))

    provider = Provider(count, answers=answers, piece_chars=6)
    events = await post(provider, [said("user", text())], "streamGenerateContent", "?alt=sse")
    array = await post(provider, [said("user", text())], "streamGenerateContent")

    chunks = [json.loads(line[6:]) for line in events.text.split("\r\n") if line.startswith("data: ")]
    assert array.headers["content-type"].startswith("application/json")
    assert [one["candidates"] for one in array.json()] == [one["candidates"] for one in chunks]
    assert len(chunks) == 4
    assert chunks[-1]["usageMetadata"]["candidatesTokenCount"] == 4 + 1 + 1


async def test_the_official_sdk_understands_both_ways_to_answer():
    async with serving(Provider(count, piece_chars=3)) as base, httpx.AsyncClient() as web:
        client = genai.Client(api_key="demo", http_options={"base_url": base, "httpx_async_client": web})
        whole = await client.aio.models.generate_content(model="demo-model", contents="one two three")
        stream = await client.aio.models.generate_content_stream(model="demo-model", contents="one two three")
        chunks = [chunk async for chunk in stream]
        await client.aio.aclose()

    assert "".join(chunk.text or "" for chunk in chunks) == whole.text == "You said: one two three"
    assert chunks[-1].usage_metadata.prompt_token_count == whole.usage_metadata.prompt_token_count
