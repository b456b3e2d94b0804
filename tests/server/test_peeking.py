"""What answers mean before they are passed on, and that they arrive whole all the same."""

import asyncio
import json

import pytest

from proxy.demo.provider import Answer
from proxy.server import peeking
from tests.bench.speakers import SPEAKERS
from tests.builders import user
from tests.server.house import NO_PRUNING, OFF, UNAWARE, a_house, a_provider, answering, long_history

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500


@pytest.mark.parametrize("encoding", ["gzip", "of-tomorrow"])
async def test_an_error_that_cannot_be_decoded_passes_as_it_came(encoding):
    provider = a_provider()
    provider.refuse_next(400, b"\x00garbage", headers=[("content-encoding", encoding)])
    async with (
        a_house(provider) as house,
        house.http.stream("POST", "/v1/chat/completions", json={"model": "m", "messages": [user("hi")]}) as answer,
    ):
        raw = b"".join([chunk async for chunk in answer.aiter_raw()])

    assert (answer.status_code, raw) == (400, b"\x00garbage")
    assert len(provider.received) == 1


def sse(*events, named=False):
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


def chunk(finish, **usage):
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **({"usage": usage} if usage else {})}


def whole(finish, **usage):
    message = {"role": "assistant", "content": ""}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


STARTED = {
    "type": "message_start",
    "message": {"role": "assistant", "usage": {"input_tokens": 4999, "output_tokens": 1}},
}
FULL = {
    "type": "message_delta",
    "delta": {"stop_reason": "model_context_window_exceeded"},
    "usage": {"output_tokens": 0},
}
TOO_LONG = "This model's maximum context length is 3000 tokens."
EXCEEDED = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
# An overflow behind a 200: who says it, in which wire format, streamed or not, and how.
SAID_LATE = {
    "Z.ai, streamed": ("chat", True, sse(chunk("model_context_window_exceeded"))),
    "Z.ai": ("chat", False, whole("model_context_window_exceeded", prompt_tokens=3000, completion_tokens=0)),
    "Xiaomi, streamed": ("chat", True, sse(chunk("length", prompt_tokens=3000, completion_tokens=0))),
    "Xiaomi": ("chat", False, whole("length", prompt_tokens=3000, completion_tokens=0)),
    "OpenRouter": ("chat", True, sse({"error": {"code": 400, "message": "Token limit reached"}, "choices": []})),
    "LM Studio": (
        "chat",
        True,
        b"event: error\n"
        + sse(
            {
                "error": {
                    "message": "The number of tokens to keep from the initial prompt is greater than the context length"
                }
            }
        ),
    ),
    "llama.cpp": (
        "chat",
        False,
        {"error": {"code": 400, "message": "the request exceeds the available context size", "n_ctx": 3000}},
    ),
    "Z.ai, its number": ("chat", True, sse({"error": {"code": "1261", "message": "Prompt 超长"}})),
    "OpenRouter, wrapped": (
        "chat",
        True,
        sse(
            {"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": f'{{"m":"{TOO_LONG}"}}'}}}
        ),
    ),
    "MiniMax": (
        "chat",
        False,
        {
            "choices": None,
            "base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"},
        },
    ),
    "OpenAI Responses, by code": (
        "responses",
        True,
        sse({"type": "error", "code": "context_length_exceeded", "message": "no"}, named=True),
    ),
    "OpenAI Responses, error": ("responses", True, sse({"type": "error", **EXCEEDED}, named=True)),
    "OpenAI Responses, failed": (
        "responses",
        True,
        sse({"type": "response.failed", "response": {"status": "failed", "error": EXCEEDED}}, named=True),
    ),
    "Anthropic, full": ("messages", True, sse(STARTED, FULL, {"type": "message_stop"}, named=True)),
    "Anthropic, error": (
        "messages",
        True,
        sse({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}, named=True),
    ),
    "Gemini": ("gemini", True, sse({"error": {"code": 400, "message": TOO_LONG, "status": "INVALID_ARGUMENT"}})),
}


@pytest.mark.parametrize(("name", "stream", "said_first"), SAID_LATE.values(), ids=SAID_LATE.keys())
async def test_an_overflow_behind_a_200_is_rescued_before_the_client_sees_it(name, stream, said_first):
    provider = a_provider(models=("demo-model",))
    first = []

    async def upstream(scope, receive, send):
        if scope["type"] == "http" and not first:
            first.append(1)
            while (await receive()).get("more_body"):
                pass
            kind = "text/event-stream" if isinstance(said_first, bytes) else "application/json"
            await answering(200, said_first, kind)(receive, send)
            return
        await provider(scope, receive, send)

    speaker = SPEAKERS[name]
    body = speaker.body([], long_history())
    if not stream:
        del body["stream"], body["stream_options"]
    async with a_house(upstream, **UNAWARE) as house:
        answer = await house.http.post(speaker.path, json=body, headers={"authorization": "Bearer k1"})

    assert answer.status_code == 200
    assert "You said" in answer.text
    assert "exceed" not in answer.text
    assert len(provider.received[-1].body) < len(json.dumps(body)) * 0.8


async def test_a_stream_that_was_looked_into_arrives_whole():
    provider = a_provider(window=100_000, answers=lambda *_: Answer(text="word " * 300))
    body = {"stream": True, "stream_options": {"include_usage": True}}
    async with a_house(provider, window=6000, max_output=2000, prune=NO_PRUNING, compact=OFF) as house:
        answer = await house.chat(long_history(6), **body)

    text = "".join(
        choice["delta"].get("content") or ""
        for line in answer.text.splitlines()
        if line.startswith("data: {")
        for choice in json.loads(line[6:])["choices"]
    )
    assert text == "word " * 300
    assert answer.text.endswith("data: [DONE]\n\n")


def gemini(text, **more):
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}]}


async def test_a_stream_that_is_no_event_stream_is_not_waited_for():
    """Google's JSON array; the request is long enough for its window to be in doubt."""
    goes_on = asyncio.Event()
    pieces = [
        json.dumps([gemini("a")])[:-1].encode(),
        b"," + json.dumps([gemini("b", finishReason="STOP")])[1:].encode(),
    ]

    async def upstream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": pieces[0], "more_body": True})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": pieces[1]})

    body = {"contents": [{"role": "user", "parts": [{"text": LONG * 5}]}]}
    path = "/v1beta/models/of-unknown-window:streamGenerateContent"
    async with a_house(upstream) as house, house.http.stream("POST", path, json=body) as answer:
        seen = []
        async for piece in answer.aiter_raw():
            seen.append(piece)
            goes_on.set()

    assert seen == pieces


async def test_signs_of_life_are_not_held_back_for_long(monkeypatch):
    monkeypatch.setattr(peeking, "_MOST_PEEK_S", 0.05)
    seen = []
    goes_on = asyncio.Event()

    async def upstream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})
            await asyncio.sleep(0.06)
        await goes_on.wait()
        await send({"type": "http.response.body", "body": sse(chunk("stop")) + b"data: [DONE]\n\n"})

    body = {"model": "of-unknown-window", "stream": True, "messages": [user(LONG * 5)]}
    async with a_house(upstream) as house, house.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for piece in answer.aiter_raw():
            seen.append(piece)
            goes_on.set()

    assert b"".join(seen).startswith(b": keep-alive\n\n")
    assert b"".join(seen).endswith(b"data: [DONE]\n\n")
