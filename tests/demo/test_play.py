"""The client's side of the show."""

import httpx
import pytest

from proxy.demo.play import Heard, ask, body_of, error_text
from proxy.demo.provider import Answer, Call, Provider
from proxy.demo.serving import serving
from proxy.demo.sessions import Session
from proxy.wire.body import loads
from tests.demo.builders import count

pytestmark = pytest.mark.anyio

SESSION = Session(
    name="s",
    agent="a",
    source="",
    licence="MIT",
    tools=({"type": "function", "function": {"name": "look"}},),
    messages=({"role": "user", "content": "one two"}, {"role": "assistant", "content": "yes"}),
)
BODY = body_of(SESSION, SESSION.messages[:1], "m")


async def heard(provider):
    async with serving(provider) as base, httpx.AsyncClient(base_url=base) as client:
        return await ask(client, BODY, 0)


def test_a_turn_is_asked_as_agents_do():
    body = loads(BODY)

    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["tools"] == list(SESSION.tools)


async def test_a_stream_becomes_the_message_and_its_usage():
    calls = (Call(call_id="c1", name="look", arguments='{"a":1}'), Call(call_id="c2", name="look", arguments="{}"))
    answer = Answer(text="one moment", calls=calls)
    told = await heard(Provider(count, answers=lambda asked, headers: answer, piece_chars=3))

    assert told.said["content"] == "one moment"
    assert [call["function"]["arguments"] for call in told.said["tool_calls"]] == ['{"a":1}', "{}"]
    assert (told.status, told.input_tokens, told.output_tokens) == (200, 2 + 4 + 1 + 3, 2 + 2 * 5)


async def test_a_refusal_is_told_with_its_text():
    told = await heard(Provider(count, window=5))

    assert (told.status, told.said) == (400, None)
    assert told.error.startswith("This model's maximum context length is 5 tokens")


def test_the_proxys_notes_are_read_from_its_headers():
    told = Heard(
        status=200,
        headers={
            "x-context-estimated-input-tokens": "110",
            "x-context-basis": "anchored",
            "x-context-removed-tokens": "7",
            "x-context-compacted": "1",
        },
        input_tokens=100,
    )

    assert (told.estimated, told.anchored, told.removed_tokens, told.compacted) == (110, True, 7, True)
    assert told.error_percent == 10.0


def test_without_a_proxy_there_is_no_error_to_speak_of():
    told = Heard(status=200, headers={}, input_tokens=100)

    assert (told.estimated, told.error_percent, told.removed_tokens) == (None, None, 0)


def test_an_answer_of_another_shape_is_no_error_of_ours():
    assert error_text(b"<html>") == "an answer that is not an error of this API"
