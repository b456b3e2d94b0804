"""The provider's hooks do what tests order."""

import httpx
import pytest

from proxy.demo.provider import Provider, Rules
from tests.demo.builders import count
from tests.serving import serving

pytestmark = pytest.mark.anyio


def user(text="one two three"):
    return {"role": "user", "content": text}


async def post(provider, messages=None, headers=None, **fields):
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        body = {"model": "demo-model", "messages": messages or [user()], **fields}
        return await client.post("/v1/chat/completions", json=body, headers=headers)


async def test_requests_are_kept_in_the_order_of_their_arrival():
    provider = Provider(count)
    await post(provider, [user("a")], {"X-Mark": "1"})
    await post(provider, [user("b")])

    assert [record.body for record in provider.received] == [
        b'{"model":"demo-model","messages":[{"role":"user","content":"a"}]}',
        b'{"model":"demo-model","messages":[{"role":"user","content":"b"}]}',
    ]
    assert provider.received[0].headers["x-mark"] == "1"
    assert provider.received[0].status == 200


async def test_ordered_refusals_come_once_each():
    provider = Provider(count)
    provider.refuse_next(429, {"error": {"message": "slow down"}}, headers=[("retry-after", "7")])
    refused, fine = await post(provider), await post(provider)

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
    assert refused.json()["error"]["message"] == "slow down"
    assert fine.status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_answer_ends_without_its_end(stream):
    provider = Provider(count)
    provider.cut_next(2)
    with pytest.raises(httpx.RemoteProtocolError):
        await post(provider, stream=stream)

    assert (await post(provider, stream=stream)).status_code == 200


async def test_a_client_that_leaves_is_noticed():
    provider = Provider(count, piece_chars=1)
    provider.pause_s = 0.01
    async with serving(provider) as base:
        body = {"model": "demo-model", "messages": [user("w " * 30)], "stream": True}
        async with (
            httpx.AsyncClient(base_url=base) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as answer,
        ):
            await anext(answer.aiter_bytes())

    assert provider.received[0].abandoned


async def test_the_cache_serves_exact_prefixes_in_steps_until_they_expire():
    now = [1000.0]
    provider = Provider(count, cache_minimum=100, cache_granularity=10, cache_ttl_s=60, clock=lambda: now[0])
    history = [user("w " * 150), {"role": "assistant", "content": "fine"}, user("more")]

    async def cached(messages):
        answer = await post(provider, messages)
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    first = await cached(history[:1])
    warm = await cached(history)
    changed = await cached([user("v " * 150), *history[1:]])
    now[0] += 61
    cold = await cached(history)

    assert (first, warm, changed, cold) == (0, 150, 0, 0)


async def test_short_prompts_are_never_cached():
    provider = Provider(count, cache_minimum=1024)
    await post(provider)
    usage = (await post(provider)).json()["usage"]

    assert usage["prompt_tokens_details"] == {"cached_tokens": 0, "audio_tokens": 0}


async def test_cache_writes_are_reported_where_the_model_charges_them():
    provider = Provider(count, cache_minimum=10, cache_granularity=1, rules=Rules(cache_writes=True))
    usage = (await post(provider, [user("w " * 50)])).json()["usage"]
    bill = provider.received[0].bill

    assert usage["prompt_tokens_details"]["cache_write_tokens"] == 54
    assert provider.paid(bill) == 3 + 1.25 * 54


async def test_what_is_not_served_is_404():
    async with serving(Provider(count)) as base, httpx.AsyncClient() as client:
        answer = await client.get(f"{base}/v1/nothing")

    assert answer.status_code == 404
