"""Cache breakpoints that the proxy sets for Anthropic clients that set none."""

import json

import pytest

from proxy.exchange.prepare import prepare
from tests.builders import said, user
from tests.server.house import EAGER, NO_PRUNING, OFF, a_house, a_provider

pytestmark = pytest.mark.anyio

TOOLS = [{"name": "read", "description": "reads " * 300, "input_schema": {"type": "object", "properties": {}}}]
LONG = "alpha beta gamma delta " * 300
TEXTS = [f"{number} {LONG}" for number in range(5)]
MARK = {"type": "ephemeral"}


def cached_tokens(response):
    """From a message or from a stream's `message_start`."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()["usage"]["cache_read_input_tokens"]
    events = [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:")]
    return events[0]["message"]["usage"]["cache_read_input_tokens"]


async def played(house, **fields):
    """Cached tokens of each turn of a conversation."""
    history, read = [], []
    for text in TEXTS:
        history.append(user(text))
        response = await house.messages(history, **fields)
        assert response.status_code == 200, response.text
        read.append(cached_tokens(response))
        history.append(said("ok"))
    return read


@pytest.mark.parametrize("stream", [False, True])
async def test_cache_reads_grow_with_the_conversation(stream):
    provider = a_provider()
    fields = {"stream": stream, "tools": TOOLS, "system": "be brief"}
    async with a_house(provider, prune=NO_PRUNING, compact=OFF, auto_cache=True) as house:
        read = await played(house, **fields)
        turns = await house.turns()
    async with a_house(a_provider(), prune=NO_PRUNING, compact=OFF) as house:
        unmarked = await played(house, **fields)

    assert unmarked == [0] * len(TEXTS)
    assert read == sorted(set(read))
    assert len({turn.session for turn in turns}) == 1
    assert [received.body.count(b'"cache_control"') for received in provider.received] == [3, 4, 4, 4, 4]


@pytest.mark.parametrize("pruned", [False, True])
async def test_what_goes_out_differs_in_marks_alone(pruned):
    provider = a_provider()
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]}
    result = user([{"type": "tool_result", "tool_use_id": "t1", "content": LONG}])
    history = [user("go"), call, result, said("read it"), user("next")]
    sent = []
    for auto_cache in (False, True):
        async with a_house(
            provider, prune=EAGER if pruned else NO_PRUNING, compact=OFF, auto_cache=auto_cache
        ) as house:
            answer = await house.messages(history, tools=TOOLS)
        sent.append((json.loads(provider.received[-1].body), answer.headers["x-context-session"]))
    (plain, plain_session), (body, session) = sent

    assert body["tools"][-1].pop("cache_control") == MARK
    assert body["messages"][2]["content"][-1].pop("cache_control") == MARK
    assert body["messages"][4]["content"] == [{"type": "text", "text": "next", "cache_control": MARK}]
    body["messages"][4]["content"] = "next"
    assert body == plain
    assert (body["messages"][2] == result) is not pruned
    assert session == plain_session


async def test_a_clients_own_marks_and_a_mode_that_only_looks_keep_the_bytes():
    provider = a_provider()
    marked = [user([{"type": "text", "text": "hello", "cache_control": MARK}]), said("hi"), user("next")]
    async with a_house(provider, auto_cache=True) as house:
        answers = [
            await house.messages(marked),
            await house.messages([user("hello")], headers={"x-context-mode": "observe"}),
            await house.messages([user("hello")], headers={"x-context-mode": "off"}),
        ]

    assert [received.body for received in provider.received] == [answer.request.content for answer in answers]


async def test_a_decision_that_trips_leaves_the_bytes_unmarked(monkeypatch):
    provider = a_provider()
    asked = []

    def trips_once(*args, **kwargs):
        asked.append(1)
        if len(asked) == 1:
            raise KeyError("ours")
        return steps(*args, **kwargs)

    steps = prepare.steps
    monkeypatch.setattr(prepare, "steps", trips_once)
    async with a_house(provider, auto_cache=True) as house:
        answer = await house.messages([user("hello")])

    assert (answer.status_code, len(asked)) == (200, 2)
    assert provider.received[0].body == answer.request.content


async def test_a_count_is_not_marked():
    provider = a_provider()
    async with a_house(provider, auto_cache=True) as house:
        answer = await house.http.post(
            "/v1/messages/count_tokens",
            json={"model": "gpt-4o", "messages": [user("hello")]},
            headers={"x-api-key": "k1", "anthropic-version": "2023-06-01"},
        )

    assert answer.status_code == 200
    assert provider.received[0].body == answer.request.content


async def test_other_formats_are_not_marked():
    provider = a_provider()
    async with a_house(provider, auto_cache=True, ask_usage=False) as house:
        answer = await house.chat([user("hello")])

    assert provider.received[0].body == answer.request.content


def refused(message):
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


@pytest.mark.parametrize(
    "message", ["messages.0.content.0.cache_control: Extra inputs are not permitted", "bad request"]
)
async def test_a_provider_that_refuses_marks_is_asked_once_and_gets_the_clients_own_bytes(message):
    provider = a_provider()
    provider.refuse_next(400, refused(message))
    async with a_house(provider, auto_cache=True) as house:
        first = await house.messages([user("hello")])
        second = await house.messages([user("hello"), said("hi"), user("next")])

    assert (first.status_code, second.status_code) == (200, 200)
    assert [b"cache_control" in received.body for received in provider.received] == [True, False, False]
    assert [received.body for received in provider.received[1:]] == [first.request.content, second.request.content]


async def test_edits_outlive_the_marks_that_were_refused_with_them():
    provider = a_provider()
    provider.refuse_next(400, refused("cache_control: Extra inputs are not permitted"))
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]}
    result = user([{"type": "tool_result", "tool_use_id": "t1", "content": LONG}])
    async with a_house(provider, prune=EAGER, compact=OFF, auto_cache=True) as house:
        answer = await house.messages([user("go"), call, result, said("read it"), user("next")])

    assert answer.status_code == 200
    assert int(answer.headers["x-context-removed-tokens"]) > 0
    marked, plain = (received.body for received in provider.received)
    assert (b"cache_control" in marked, b"cache_control" in plain) == (True, False)
    assert LONG.encode() not in plain


async def test_a_refusal_that_stays_without_the_marks_says_nothing_of_them():
    provider = a_provider()
    provider.refuse_next(400, refused("bad request"), times=2)
    async with a_house(provider, auto_cache=True) as house:
        first = await house.messages([user("hello")])
        second = await house.messages([user("hello again")])

    assert (first.status_code, second.status_code) == (400, 200)
    assert [b"cache_control" in received.body for received in provider.received] == [True, False, True]
