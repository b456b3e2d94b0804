"""Summary calls that go wrong, in each wire format: the client's call goes on, soon, with a history that fits."""

import asyncio
import json

import pytest

from proxy.server import summarizer
from proxy.settings.values import Compact, Server
from tests.bench.speakers import SPEAKERS
from tests.builders import said, user
from tests.dialects.builders import BUILDERS, Answered
from tests.server.house import NO_PRUNING, RECORD, Troubled, a_house, a_provider, answering, long_history, silent

pytestmark = pytest.mark.anyio

DIALECTS = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "messages": "anthropic_messages",
    "gemini": "gemini",
}
WINDOW = 4000
NOW = Compact(background_share=1.0, tail_share=0.1, max_summary_tokens=400)
# How each says that it was cut by length, and that it would not answer.
CUT = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens", "gemini": "MAX_TOKENS"}
FILTERED = {"chat": "content_filter", "responses": "content_filter", "messages": "refusal", "gemini": "SAFETY"}


def refusing(name):
    """A whole answer that ends by itself and holds a refusal."""
    value = whole(name, "")
    if name == "chat":
        value["choices"][0]["message"] |= {"content": None, "refusal": RECORD}
    else:
        content = [{"type": "refusal", "refusal": RECORD}]
        value["output"] = [{"type": "message", "role": "assistant", "content": content}]
    return value


def whole(name, text, ended=""):
    """A whole answer in this format; `ended`: not by itself, but for this reason."""
    value = json.loads(BUILDERS[DIALECTS[name]].whole(Answered(text=text, output_tokens=50)))
    if ended and name == "chat":
        value["choices"][0]["finish_reason"] = ended
    elif ended and name == "messages":
        value["stop_reason"] = ended
    elif ended and name == "responses":
        value |= {"status": "incomplete", "incomplete_details": {"reason": ended}}
    elif ended:
        value["candidates"][0]["finishReason"] = ended
    return value


def streamed(name):
    """A stream where a whole answer was asked for."""
    return BUILDERS[DIALECTS[name]].stream(Answered(text=RECORD))


async def hangs_up(receive, send):
    raise ConnectionError("down")


FAULTS = {
    "down": lambda name: hangs_up,
    "an error": lambda name: answering(503, {"error": {"message": "down", "type": "api_error"}}),
    "overloaded": lambda name: answering(529, {"type": "error", "error": {"type": "overloaded_error"}}),
    "too long itself": lambda name: answering(
        400, {"error": {"message": "prompt is too long: 9000 tokens > 4000 maximum"}}
    ),
    "empty": lambda name: answering(200, whole(name, "")),
    "longer than what it replaces": lambda name: answering(200, whole(name, "long " * 20_000)),
    "hardly shorter": lambda name: answering(200, whole(name, "alpha beta gamma delta " * 1100)),
    "refused": lambda name: answering(200, whole(name, "I cannot help with that.", FILTERED[name])),
    "cut by length": lambda name: answering(200, whole(name, RECORD, CUT[name])),
    "streamed garbage": lambda name: answering(200, b"data: {]\n\ndata: [DONE]\n\n", "text/event-stream"),
    "streamed though whole was asked": lambda name: answering(200, streamed(name), "text/event-stream"),
    "no JSON": lambda name: answering(200, b"<html>busy</html>", "text/html"),
    "broken off": lambda name: answering(200, whole(name, RECORD), whole=False),
}


def house_for(upstream, **more):
    return a_house(upstream, **{"window": WINDOW, "max_output": 500, "prune": NO_PRUNING, "compact": NOW, **more})


async def asked(house, name, said_so_far):
    speaker = SPEAKERS[name]
    return await house.http.post(
        speaker.path, json=speaker.body([], said_so_far), headers={"authorization": "Bearer k1"}
    )


@pytest.mark.parametrize("name", SPEAKERS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_c54_the_call_goes_on_and_fits(fault, name):
    upstream = Troubled(a_provider(models=("demo-model",), window=WINDOW), fault(name))
    async with house_for(upstream) as house:
        first = await asked(house, name, long_history())
        again = await asked(house, name, [*long_history(), said("This."), user("And?")])

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.headers["x-context-compacted"] == again.headers["x-context-compacted"] == "1"
    # Neither is a failed summary asked for again at once, nor does what stands instead change.
    assert upstream.summaries == 1
    sent, later = (json.loads(record.body)[SPEAKERS[name].history] for record in upstream.provider.received)
    assert json.dumps(sent)[:-200] == json.dumps(later)[: len(json.dumps(sent)) - 200]
    assert RECORD[:20] not in json.dumps(sent)


@pytest.mark.parametrize("name", SPEAKERS)
async def test_a_good_summary_stands_in_each_format(name):
    upstream = Troubled(a_provider(models=("demo-model",), window=WINDOW), answering(200, whole(name, RECORD)))
    async with house_for(upstream) as house:
        answer = await asked(house, name, long_history())

    assert answer.status_code == 200
    assert b"Finish the work." in upstream.provider.received[-1].body


@pytest.mark.parametrize("ended", ["eos", "eos_token"])
async def test_the_end_that_together_and_hugging_face_name_is_one(ended):
    upstream = Troubled(a_provider(models=("demo-model",), window=WINDOW), answering(200, whole("chat", RECORD, ended)))
    async with house_for(upstream) as house:
        await asked(house, "chat", long_history())

    assert b"Finish the work." in upstream.provider.received[-1].body


@pytest.mark.parametrize("name", ["chat", "responses"])
async def test_a_refusal_in_a_field_of_its_own_is_no_summary(name):
    upstream = Troubled(a_provider(models=("demo-model",), window=WINDOW), answering(200, refusing(name)))
    async with house_for(upstream) as house:
        answer = await asked(house, name, long_history())

    assert (answer.status_code, upstream.summaries) == (200, 1)
    assert b"Finish the work." not in upstream.provider.received[-1].body


@pytest.mark.parametrize("name", SPEAKERS)
async def test_a_slow_summary_is_given_up(name, monkeypatch):
    monkeypatch.setattr(summarizer, "WAIT_S", 0.2)
    upstream = Troubled(a_provider(models=("demo-model",), window=WINDOW), silent(60))
    async with house_for(upstream) as house:
        answer = await asked(house, name, long_history())
        for _ in range(3000):
            if upstream.left:
                break
            await asyncio.sleep(0.01)

    assert answer.status_code == 200
    assert answer.headers["x-context-compacted"] == "1"
    assert (upstream.summaries, upstream.left) == (1, 1)


async def test_an_answer_that_trickles_is_given_up_too(monkeypatch):
    """Each byte in time, the whole never."""
    monkeypatch.setattr(summarizer, "WAIT_S", 0.3)

    async def trickles(receive, send):
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.02)

    upstream = Troubled(a_provider(models=("demo-model",), window=WINDOW), trickles)
    async with house_for(upstream) as house:
        answer = await asked(house, "chat", long_history())

    assert answer.status_code == 200
    assert answer.headers["x-context-compacted"] == "1"


@pytest.mark.parametrize("name", SPEAKERS)
async def test_a_client_that_waited_sees_signs_of_life_where_its_format_allows_them(name):
    """From the upstream's head on, since it is not ours to give; Gemini's clients trip over comments."""
    provider = a_provider(models=("demo-model",), window=WINDOW)
    provider.pause_s = 0.5
    upstream = Troubled(provider, answering(200, whole(name, RECORD)))
    async with house_for(upstream, server=Server(heartbeat_s=0.05)) as house:
        answer = await asked(house, name, long_history())
        short = await asked(house, name, [user("hello")])

    assert answer.headers["x-context-compacted"] == "1"
    assert (": \n" in answer.text) == (name != "gemini")
    # Only who waited gets them.
    assert ": \n" not in short.text


async def test_r28_a_call_waits_for_one_summary_at_most():
    """After an overflow in spite of it a record stands that no model writes: clients bear no second wait."""
    provider = a_provider(models=("demo-model",))
    message = "This model's maximum context length is 1200 tokens."
    refusal = {"error": {"message": message, "code": "context_length_exceeded"}}
    provider.refuse_next(400, refusal)
    upstream = Troubled(provider, answering(200, whole("chat", RECORD)))
    long_tail = Compact(background_share=1.0, tail_share=0.6, max_summary_tokens=400)
    async with house_for(upstream, compact=long_tail) as house:
        answer = await asked(house, "chat", long_history())

    assert answer.status_code == 200
    assert (upstream.summaries, [record.status for record in provider.received]) == (1, [400, 200])
