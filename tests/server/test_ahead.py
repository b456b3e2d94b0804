"""Calls that are sent first and predicted while the provider works."""

import pytest
from structlog.testing import capture_logs

from proxy.server import ahead, decide
from tests.builders import messages_of, rounds, said, user
from tests.server.house import EAGER, OFF, a_house, a_provider, with_record

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500
SEEN = [*rounds(LONG), said("read it"), user("next")]


@pytest.fixture
def order(monkeypatch):
    """What was done first: a request sent, or predicted."""
    noted = []

    def noting(name, inner):
        def noted_call(*given, **named):
            noted.append(name)
            return inner(*given, **named)

        return noted_call

    monkeypatch.setattr(decide.prepare, "steps", noting("predicted", decide.prepare.steps))
    monkeypatch.setattr(ahead, "foregone", noting("predicted", ahead.foregone))
    return noted


def noting_provider(order):
    inner = with_record()

    def answers(asked, headers):
        order.append("received")
        return inner(asked, headers)

    return a_provider(answers=answers)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_plain_call_is_predicted_while_it_is_on_its_way(order, stream):
    async with a_house(noting_provider(order)) as house:
        options = {"stream_options": {"include_usage": True}} if stream else {}
        first = await house.chat([user("hello")], stream=stream, **options)
        again = await house.chat([user("hello"), said("hello"), user("more")], stream=stream, **options)
        turns = await house.turns()

    assert sorted(order[:2]) == ["predicted", "received"]
    assert [turn.turn for turn in turns] == [1, 2]
    assert first.headers["x-context-estimated-input-tokens"] == str(turns[0].estimated)
    assert turns[0].estimated == turns[0].usage.input_tokens
    assert again.headers["x-context-basis"] == "anchored"
    assert all(turn.overhead_ms > 0 and turn.upstream_ms > 0 for turn in turns)


async def test_a_call_that_can_be_changed_is_predicted_first(order):
    async with a_house(noting_provider(order)) as house:
        await house.chat(SEEN)

    assert order == ["predicted", "received"]


async def test_where_predicting_trips_the_call_goes_on_unread(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("secret content")

    monkeypatch.setattr(ahead, "foregone", broken)
    monkeypatch.setattr(ahead, "hands_off", broken)
    provider = a_provider()
    with capture_logs() as logs:
        async with a_house(provider) as house:
            answer = await house.chat([user("hello")])
            turns = await house.turns()
            assert house.handler.shared.watch.open_calls == 0

    assert answer.status_code == 200
    assert messages_of(provider.received[0].body) == [user("hello")]
    assert turns == []
    assert {"event": "failed_open", "log_level": "warning", "stage": "decide", "error": "RuntimeError"} in logs


async def test_where_the_forecast_trips_the_call_is_counted_without_its_past(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("secret content")

    async with a_house(a_provider()) as house:
        await house.chat([user("hello")])
        monkeypatch.setattr(ahead, "foregone", broken)
        answer = await house.chat([user("hello"), said("hello"), user("more")])
        turns = await house.turns()

    assert answer.status_code == 200
    assert answer.headers["x-context-basis"] == "estimated"
    assert [turn.failed_open for turn in turns] == ["", "prepare"]


async def test_what_is_out_already_is_not_said_to_have_been_changed(monkeypatch):
    """Were the first look ever wrong, the numbers would still be those of what was sent."""
    monkeypatch.setattr(decide, "goes_as_it_came", lambda *_: True)
    provider = a_provider()
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        history = [*rounds(LONG[:9_000]), said("read it"), user("next")]
        answer = await house.chat(history)
        (turn,) = await house.turns()

    assert messages_of(provider.received[0].body) == history
    assert answer.headers["x-context-removed-tokens"] == "0"
    assert turn.removed_tokens == 0
    assert turn.estimated == pytest.approx(turn.usage.input_tokens, abs=2)


async def test_a_refused_call_is_settled_as_an_error():
    async with a_house(None, base_url="http://127.0.0.1:1") as house:
        answer = await house.chat([user("hello")])
        (turn,) = await house.turns()

    assert answer.status_code == 502
    assert turn.outcome == "error"
    assert turn.overhead_ms > 0
    assert turn.estimated > 0
