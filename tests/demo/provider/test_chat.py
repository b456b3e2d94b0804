"""The chat API of the loopback provider keeps the vendor's rules."""

import json

import httpx
import openai
import pytest

from proxy.demo.provider import Answer, Call, Provider, Rules
from tests.demo.builders import count
from tests.serving import serving

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def a_call(call_id="c1", name="look", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(text="one two three"):
    return {"role": "user", "content": text}


def calling(*ids, **extra):
    return {"role": "assistant", "content": None, "tool_calls": [a_call(one) for one in ids], **extra}


def result(call_id="c1", content="found it"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


async def post(provider, messages, headers=None, **fields):
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        body = {"model": "demo-model", "messages": messages, **fields}
        return await client.post("/v1/chat/completions", json=body, headers=headers)


def events(answer):
    lines = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


async def test_the_prompt_is_counted_by_text_messages_ids_and_tools():
    answer = await post(Provider(count), [user(), calling("c1"), result()], tools=[TOOL])

    usage = answer.json()["usage"]
    # 3 words + 4; name and arguments 2 + 4 + 3; 2 words + 4 + 3; tools as compact JSON: 1 word; the request: 3.
    assert usage["prompt_tokens"] == (3 + 4) + (2 + 4 + 3) + (2 + 4 + 3) + 1 + 3
    # "The tool said: found it"
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5


async def test_calls_and_reasoning_count_as_output():
    def answers(asked, headers):
        return Answer(text="a b", calls=(Call(call_id="c", name="look", arguments="{}"),), reasoning="x y z")

    usage = (await post(Provider(count, answers=answers), [user()])).json()["usage"]

    assert usage["completion_tokens"] == 2 + (1 + 1 + 3) + 3
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 3


async def test_hidden_tokens_stand_in_every_prompt():
    bare = (await post(Provider(count), [user()])).json()["usage"]["prompt_tokens"]
    hidden = (await post(Provider(count, hidden_tokens=500), [user()])).json()["usage"]["prompt_tokens"]

    assert hidden == bare + 500


async def test_a_stream_reports_usage_only_when_asked():
    silent = events(await post(Provider(count), [user()], stream=True))
    asked = events(await post(Provider(count), [user()], stream=True, stream_options={"include_usage": True}))

    assert all("usage" not in chunk for chunk in silent)
    assert all(chunk["usage"] is None for chunk in asked[:-1])
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["prompt_tokens"] == 3 + 4 + 3


async def test_a_stream_says_what_the_whole_answer_says():
    whole = (await post(Provider(count), [user("call look")], tools=[TOOL])).json()["choices"][0]
    chunks = events(await post(Provider(count, piece_chars=3), [user("call look")], tools=[TOOL], stream=True))

    deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    call = whole["message"]["tool_calls"][0]
    assert deltas[0]["id"] == call["id"]
    assert "".join(delta["function"]["arguments"] for delta in deltas) == call["function"]["arguments"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"] == "tool_calls"


BROKEN = [
    # pairs
    ([user(), calling("c1", "c2"), result("c1")], "did not have response messages: c2"),
    ([user(), calling("c1"), user(), result("c1")], "did not have response messages: c1"),
    ([user(), calling("c1")], "did not have response messages: c1"),
    ([user(), result("c9")], "must be a response to a preceeding message"),
    ([user(), calling("c1"), result("c1"), user(), result("c1")], "must be a response to a preceeding message"),
    (
        [user(), calling("c1"), {"role": "tool", "content": "x"}],
        "Missing required parameter: 'messages[2].tool_call_id'",
    ),
    # shapes
    ([], "empty array"),
    ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    ([user(None)], "expected a string, got null"),
    ([user(), {"role": "assistant", "content": None}], "expected a string, got null"),
    ([user(), calling("c1"), result("c1", [{"type": "input_audio"}])], "Content blocks are expected to be either"),
    (
        [user(), {"role": "assistant", "content": None, "tool_calls": [a_call(arguments={})]}, result()],
        "expected a string, but got an object",
    ),
]


@pytest.mark.parametrize(("messages", "text"), BROKEN)
async def test_broken_histories_are_refused(messages, text):
    answer = await post(Provider(count), messages)

    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]


async def test_stream_options_without_stream_are_refused():
    answer = await post(Provider(count), [user()], stream_options={"include_usage": True})

    assert answer.status_code == 400
    assert "only allowed when 'stream' is enabled" in answer.json()["error"]["message"]


async def test_a_prompt_over_the_window_is_refused_with_both_numbers():
    answer = await post(Provider(count, window=20), [user("w " * 30)])

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "maximum context length is 20 tokens. However, your messages resulted in 37" in answer.text


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("deepseek", "The `reasoning_content` in the thinking mode must be passed back to the API."),
        ("kimi", "reasoning_content is missing in assistant tool call message at index 1"),
    ],
)
async def test_reasoning_must_come_back_where_the_vendor_says_so(rule, text):
    provider = Provider(count, rules=Rules(reasoning_back=rule))
    missing = await post(provider, [user(), calling("c1"), result()])
    carried = await post(provider, [user(), calling("c1", reasoning_content="because"), result()])

    assert text in missing.json()["error"]["message"]
    assert carried.status_code == 200


async def test_the_official_sdk_understands_both_ways_to_answer():
    async with serving(Provider(count)) as base:
        client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="demo", max_retries=0)
        whole = await client.chat.completions.create(model="demo-model", messages=[user()])
        stream = await client.chat.completions.create(
            model="demo-model", messages=[user()], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        await client.close()

    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content == "You said: one two three"
    assert chunks[-1].usage == whole.usage


async def test_models_are_listed():
    async with serving(Provider(count, models=["a", "b"])) as base, httpx.AsyncClient() as client:
        listed = (await client.get(f"{base}/v1/models")).json()

    assert [model["id"] for model in listed["data"]] == ["a", "b"]
