"""The Responses API of the loopback provider keeps the vendor's rules."""

import json

import httpx
import openai
import pytest

from proxy.demo.provider import Answer, Call, Provider, Rules
from tests.demo.builders import count
from tests.serving import serving

pytestmark = pytest.mark.anyio


def user(text="one two three"):
    return {"role": "user", "content": text}


def call(call_id="c1", **extra):
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}", **extra}


def output(call_id="c1", text="found it"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


async def post(provider, items, path="/v1/responses", **fields):
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        return await client.post(path, json={"model": "demo-model", "input": items, **fields})


async def test_items_are_counted_like_messages():
    usage = (await post(Provider(count), [user(), call(), output()], instructions="be kind")).json()["usage"]

    assert usage["input_tokens"] == (2 + 4) + (3 + 4) + (2 + 4 + 3) + (2 + 4 + 3) + 3
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


async def test_counting_agrees_with_the_bill():
    provider = Provider(count)
    billed = (await post(provider, [user()])).json()["usage"]["input_tokens"]
    counted = (await post(provider, [user()], "/v1/responses/input_tokens")).json()

    assert counted == {"object": "response.input_tokens", "input_tokens": billed}


async def test_counting_takes_nothing_that_has_no_say_in_it():
    answer = await post(Provider(count), [user()], "/v1/responses/input_tokens", store=False)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "store"


BROKEN = [
    ([user(), call()], "No tool output found for function call c1."),
    ([user(), output()], "No tool call found for function call output with call_id c1."),
    ([user(), {"type": "reasoning", "id": "rs_1", "summary": []}], "without its required following item"),
    ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    ([], "Missing required parameter: 'input'"),
]


@pytest.mark.parametrize(("items", "text"), BROKEN)
async def test_broken_histories_are_refused(items, text):
    answer = await post(Provider(count), items)

    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]


def thoughtful(asked, headers):
    if asked.assistants:
        return Answer(text="done")
    return Answer(reasoning="x y z", calls=(Call(call_id="c1", name="look", arguments="{}"),))


async def test_a_stored_call_needs_its_reasoning_before_it():
    provider = Provider(count, answers=thoughtful)
    thought, wish = (await post(provider, [user()])).json()["output"]
    parted = await post(provider, [user(), wish, output()])
    whole = await post(provider, [user(), thought, wish, output()])

    assert "without its required 'reasoning' item" in parted.json()["error"]["message"]
    # The reasoning comes back encrypted and counts what it cost.
    assert whole.json()["usage"]["input_tokens"] == (3 + 4) + 3 + (2 + 4 + 3) + (2 + 4 + 3) + 3


async def test_reasoning_behind_a_changed_prefix_is_dropped_and_named():
    provider = Provider(count, answers=thoughtful, rules=Rules(prefix_check=True))
    thought, wish = (await post(provider, [user()])).json()["output"]
    kept = (await post(provider, [user(), thought, wish, output()])).json()
    changed = (await post(provider, [user("edited"), thought, wish, output()])).json()

    assert "input_transformations" not in kept
    assert changed["input_transformations"][0]["reason"] == "prefix_mismatch"
    assert changed["input_transformations"][0]["id"] == thought["id"]


async def test_an_earlier_answer_can_be_continued_by_its_id():
    provider = Provider(count)
    first = (await post(provider, [user()])).json()
    second = (await post(provider, [user("more")], previous_response_id=first["id"])).json()
    unknown = await post(provider, [user("more")], previous_response_id="resp_x")

    # "You said: one two three" is five words.
    assert second["usage"]["input_tokens"] == (3 + 4) + (5 + 4) + (1 + 4) + 3
    assert unknown.json()["error"]["code"] == "previous_response_not_found"


async def test_an_overflow_in_a_stream_comes_behind_a_200():
    whole = await post(Provider(count, window=20), [user("w " * 30)])
    stream = await post(Provider(count, window=20), [user("w " * 30)], stream=True)

    values = [json.loads(line[6:]) for line in stream.text.split("\n") if line.startswith("data: ")]
    assert (whole.status_code, whole.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert stream.status_code == 200
    assert [value["type"] for value in values][-2:] == ["error", "response.failed"]
    assert values[-1]["response"]["error"]["code"] == "context_length_exceeded"


async def test_the_official_sdk_understands_both_ways_to_answer():
    async with serving(Provider(count, piece_chars=3)) as base:
        client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="demo", max_retries=0)
        whole = await client.responses.create(model="demo-model", input="one two three")
        async with client.responses.stream(model="demo-model", input="one two three") as stream:
            streamed = await stream.get_final_response()
        await client.close()

    assert streamed.output_text == whole.output_text == "You said: one two three"
    assert streamed.usage == whole.usage
