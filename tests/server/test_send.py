import gzip
import json

import pytest

from proxy.demo.provider import Rules
from proxy.dialects.openai_chat import OpenAIChat
from proxy.settings.values import Compact
from tests.builders import calls, messages_of, result, rounds, said, user
from tests.server.house import (
    NO_PRUNING,
    RECORD,
    UNAWARE,
    a_house,
    a_provider,
    eager,
    is_summary_call,
    long_history,
)

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500
SEEN = [*rounds(LONG), said("read it"), user("next")]
NOT_ALLOWED = {"error": {"message": "messages[2]: content is not allowed", "type": "invalid_request_error"}}


# A rewritten body that is refused


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_rewrite_is_sent_once_more_as_it_came(status):
    provider = a_provider()
    provider.refuse_next(status, NOT_ALLOWED)
    async with eager(provider) as house:
        answer = await house.chat(SEEN)
        (turn,) = await house.turns()

    rewritten, original = provider.received
    assert answer.status_code == 200
    assert LONG not in str(messages_of(rewritten.body))
    assert messages_of(original.body) == SEEN
    assert answer.headers["x-context-removed-tokens"] == "0"
    assert (turn.failed_open, turn.removed_tokens, turn.edits) == ("refused", 0, {})


async def test_a_chat_template_that_wants_roles_to_alternate_gets_the_original_although_its_server_says_500():
    provider = a_provider()
    said_by_llama = "Conversation roles must alternate user/assistant/user/assistant/..."
    provider.refuse_next(500, {"error": {"code": 500, "message": said_by_llama, "type": "server_error"}})
    async with eager(provider) as house:
        answer = await house.chat(SEEN)

    assert answer.status_code == 200
    assert messages_of(provider.received[1].body) == SEEN


async def test_a_refusal_that_our_reader_trips_over_reaches_the_client_as_it_is(monkeypatch):
    def trips(*_):
        raise ValueError("not for me")

    monkeypatch.setattr(OpenAIChat, "refusal", trips)
    provider = a_provider()
    provider.refuse_next(400, NOT_ALLOWED)
    async with eager(provider) as house:
        answer = await house.chat(SEEN)

    assert (answer.status_code, answer.json()) == (400, NOT_ALLOWED)


async def test_after_a_refusal_nothing_is_decided_in_that_line_any_more():
    provider = a_provider()
    provider.refuse_next(400, NOT_ALLOWED)
    async with eager(provider) as house:
        await house.chat(SEEN)
        history = [*SEEN, calls("x"), result("x", LONG), said(), user()]
        answer = await house.chat(history)
        elsewhere = await house.chat([user("another"), *SEEN[1:]])

    assert answer.status_code == 200
    assert messages_of(provider.received[2].body) == history
    assert elsewhere.headers["x-context-removed-tokens"] != "0"


async def test_a_refusal_of_the_original_too_is_the_clients_to_see():
    provider = a_provider()
    provider.refuse_next(400, NOT_ALLOWED, times=2)
    async with eager(provider) as house:
        answer = await house.chat(SEEN)

    assert (answer.status_code, answer.json()) == (400, NOT_ALLOWED)
    assert len(provider.received) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_r28_other_errors_are_not_tried_again(status):
    provider = a_provider()
    provider.refuse_next(status, {"error": {"message": "no"}})
    async with eager(provider) as house:
        answer = await house.chat(SEEN)

    assert answer.status_code == status
    assert len(provider.received) == 1


async def test_r28_a_refusal_of_the_clients_own_body_is_not_tried_again():
    provider = a_provider()
    provider.refuse_next(400, NOT_ALLOWED)
    async with eager(provider) as house:
        answer = await house.chat([user("hi")])

    assert (answer.status_code, answer.json()) == (400, NOT_ALLOWED)
    assert len(provider.received) == 1


# The wish for usage


async def test_c51_a_host_that_refuses_stream_options_is_asked_once():
    provider = a_provider(rules=Rules(stream_options=False))
    async with a_house(provider) as house:
        first = await house.chat([user("hi")], stream=True)
        second = await house.chat([user("ho")], stream=True)

    asked = [b"stream_options" in record.body for record in provider.received]
    assert first.status_code == second.status_code == 200
    assert asked == [True, False, False]
    assert b"[DONE]" in first.content


async def test_c51_pruning_goes_on_where_only_the_option_was_refused():
    provider = a_provider(rules=Rules(stream_options=False))
    async with eager(provider) as house:
        answer = await house.chat(SEEN, stream=True)
        (turn,) = await house.turns()

    assert answer.headers["x-context-removed-tokens"] != "0"
    assert LONG not in str(messages_of(provider.received[1].body))
    assert turn.failed_open == ""


async def test_c51_a_summary_made_for_this_call_survives_the_second_try():
    provider = a_provider(rules=Rules(stream_options=False))
    compact = Compact(trigger="share", share=0.5, background_share=1.0, tail_share=0.1, max_summary_tokens=400)
    history = [user("Read."), *rounds(*[f"{n} {LONG[:6000]}" for n in range(4)])[1:], said("yes"), user("so?")]
    async with a_house(provider, window=8000, max_output=500, prune=NO_PRUNING, compact=compact) as house:
        answer = await house.chat(history, stream=True)

    assert answer.headers["x-context-compacted"] == "1"
    assert [is_summary_call(record.body) for record in provider.received] == [True, False, False]
    assert RECORD in str(messages_of(provider.received[2].body)[1]["content"])


async def test_c51_the_refusal_is_understood_when_it_comes_compressed():
    refusal = gzip.compress(json.dumps({"error": {"message": "Unknown parameter: stream_options"}}).encode())
    provider = a_provider()
    provider.refuse_next(400, refusal, headers=[("content-encoding", "gzip")])
    async with a_house(provider) as house:
        await house.chat([user("hi")], stream=True)
        answer = await house.chat([user("ho")], stream=True)

    assert answer.status_code == 200
    assert [b"stream_options" in record.body for record in provider.received] == [True, False, False]


@pytest.mark.parametrize("max_tokens", [4_000, 1_000_000])
async def test_r34_an_answer_as_long_as_the_window_is_the_upstreams_to_refuse(max_tokens):
    provider = a_provider(window=4_000)
    async with a_house(provider, window=4_000) as house:
        body = json.dumps({"model": "gpt-4o", "messages": [user("hi")], "max_tokens": max_tokens}).encode()
        headers = {"authorization": "Bearer k1", "content-type": "application/json"}
        answer = await house.http.post("/v1/chat/completions", content=body, headers=headers)

    assert [record.body for record in provider.received] == [body]
    assert answer.status_code == provider.received[0].status


async def test_an_error_of_the_clients_own_is_not_hidden_by_the_overflow_of_the_original():
    provider = a_provider(window=3000)
    wrong = {"error": {"message": "Invalid value for 'temperature': expected at most 2."}}
    async with a_house(provider, window=3000, max_output=300, prune=NO_PRUNING, **UNAWARE) as house:
        first = await house.chat(long_history())
        before = len(provider.received)
        provider.refuse_next(400, wrong)
        answer = await house.chat([*long_history(), said("This."), user("And?")], temperature=5)
        later = await house.chat([*long_history(), said("This."), user("And?")])

    assert (first.status_code, later.status_code) == (200, 200)
    assert (answer.status_code, answer.json()) == (400, wrong)
    assert [record.status for record in provider.received[before:]] == [400, 400, 200]
