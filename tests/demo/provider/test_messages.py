"""The Messages API of the loopback provider keeps the vendor's rules."""

import anthropic
import httpx
import pytest

from proxy.demo.provider import Answer, Provider, Rules
from tests.demo.builders import count
from tests.serving import serving

pytestmark = pytest.mark.anyio

MARK = {"cache_control": {"type": "ephemeral"}}
BINDING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BETA = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}


def said(role, *blocks):
    return {"role": role, "content": list(blocks)}


def text(words="one two three", **extra):
    return {"type": "text", "text": words, **extra}


async def post(provider, messages, path="/v1/messages", headers=None, **fields):
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        body = {"model": "demo-model", "max_tokens": 100, "messages": messages, **fields}
        return await client.post(path, json=body, headers=headers)


async def test_input_tokens_leave_out_what_is_cached():
    provider = Provider(count, cache_minimum=10)
    messages = [said("user", text("w " * 50, **MARK))]
    first = (await post(provider, messages)).json()["usage"]
    longer = [*messages, said("assistant", text("fine")), said("user", text("w " * 20, **MARK))]
    second = (await post(provider, longer)).json()["usage"]

    assert (first["input_tokens"], first["cache_creation_input_tokens"], first["cache_read_input_tokens"]) == (4, 52, 0)
    assert (second["input_tokens"], second["cache_creation_input_tokens"]) == (4, 1 + 2 + 20 + 2)
    assert second["cache_read_input_tokens"] == 52


async def test_a_string_is_cached_as_the_text_block_it_stands_for():
    provider = Provider(count, cache_minimum=10)
    fields = {"system": [text("s " * 20)]}
    first = [said("user", text("w " * 50, **MARK))]
    await post(provider, first, **fields)
    longer = [{"role": "user", "content": "w " * 50}, said("assistant", text("fine")), said("user", text("ok", **MARK))]
    usage = (await post(provider, longer, system="s " * 20)).json()["usage"]

    assert usage["cache_read_input_tokens"] > 50


async def test_nothing_is_cached_without_a_mark_and_everything_with_one_at_the_top():
    provider = Provider(count, cache_minimum=10)
    bare = (await post(provider, [said("user", text("w " * 50))])).json()["usage"]
    top = (await post(provider, [said("user", text("w " * 50))], **MARK)).json()["usage"]

    assert bare["cache_creation_input_tokens"] == 0
    assert top["cache_creation_input_tokens"] == 52


async def test_counting_agrees_with_the_bill():
    provider = Provider(count)
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    fields = {"system": "be kind", "tools": tools}
    billed = (await post(provider, [said("user", text())], **fields)).json()["usage"]["input_tokens"]
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        body = {"model": "demo-model", "messages": [said("user", text())], **fields}
        counted = (await client.post("/v1/messages/count_tokens", json=body)).json()

    assert counted == {"input_tokens": billed}


async def test_counting_takes_nothing_that_has_no_say_in_it():
    answer = await post(Provider(count), [said("user", text())], "/v1/messages/count_tokens")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "max_tokens: Extra inputs are not permitted"


async def test_a_prompt_over_the_window_names_both_numbers():
    answer = await post(Provider(count, window=20), [said("user", text("w " * 30))])

    assert answer.json()["error"]["message"] == "prompt is too long: 36 tokens > 20 maximum"


def thoughtful(asked, headers):
    return Answer(text="yes", reasoning=f"thought {asked.assistants}")


async def two_thoughts(provider):
    """A conversation of two thinking turns, as a client would keep it."""
    history = [said("user", text("first question"))]
    for turn in range(2):
        answer = (await post(provider, history)).json()
        history += [said("assistant", *answer["content"]), said("user", text(f"question {turn}"))]
    return history


async def test_signed_thinking_is_accepted_in_its_own_conversation():
    provider = Provider(count, answers=thoughtful, rules=Rules(prefix_check=True))
    history = await two_thoughts(provider)

    assert (await post(provider, history, system=None)).status_code == 200


async def test_moving_cache_marks_breaks_no_signature():
    provider = Provider(count, answers=thoughtful, rules=Rules(prefix_check=True))
    history = await two_thoughts(provider)
    history[0] = said("user", text("first question", **MARK))

    assert (await post(provider, history)).status_code == 200


async def test_an_edit_breaks_every_thought_behind_it():
    provider = Provider(count, answers=thoughtful, rules=Rules(prefix_check=True))
    history = await two_thoughts(provider)
    history[2] = said("user", text("edited"))
    refused = await post(provider, history)
    dropped = await post(provider, history, thinking=BINDING, headers=BETA)

    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith(
        "messages.3.content.0: Invalid `signature` in `thinking` block."
    )
    assert [one["path"] for one in dropped.json()["input_transformations"]] == ["messages.3.content.0"]


async def test_the_drop_option_needs_its_beta_header():
    provider = Provider(count, rules=Rules(prefix_check=True))
    answer = await post(provider, [said("user", text())], thinking=BINDING)

    assert "thinking.adaptive.block_binding: Extra inputs are not permitted" in answer.text


async def test_the_official_sdk_understands_both_ways_to_answer():
    def answers(asked, headers):
        return Answer(text="all good", reasoning="hm hm")

    async with serving(Provider(count, answers=answers, piece_chars=3)) as base:
        client = anthropic.AsyncAnthropic(base_url=base, api_key="demo", max_retries=0)
        ask = {"model": "demo-model", "max_tokens": 50, "messages": [said("user", text())]}
        whole = await client.messages.create(**ask)
        async with client.messages.stream(**ask) as stream:
            streamed = await stream.get_final_message()
        await client.close()

    assert [block.type for block in whole.content] == ["thinking", "text"]
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in whole.content]
    assert streamed.usage.output_tokens == whole.usage.output_tokens == 4


async def test_calls_and_results_weigh_what_recorded_ones_weigh():
    """The answer's output holds its call; what comes back is that output and 12 tokens around the result."""
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    provider = Provider(count)
    asked = [said("user", text("call look please"))]
    first = (await post(provider, asked, tools=tools)).json()
    result = {"type": "tool_result", "tool_use_id": first["content"][0]["id"], "content": "seen"}
    longer = [*asked, said("assistant", *first["content"]), said("user", result)]
    second = (await post(provider, longer, tools=tools)).json()

    assert first["usage"]["input_tokens"] > 346
    assert first["usage"]["output_tokens"] == 45 + 2
    assert second["usage"]["input_tokens"] == first["usage"]["input_tokens"] + 47 + 12 + 1
