"""Servers whose chat template wants roles to alternate (Gemma, Mistral): a long conversation goes on there, too."""

import json

import pytest

from proxy.conversation.model import ToolCall
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.settings.values import Compact
from tests.bench.speakers import SPEAKERS
from tests.builders import calls, result, said, user
from tests.server.house import NO_PRUNING, a_house, a_provider, is_summary_call
from tests.server.stores import a_store

pytestmark = pytest.mark.anyio

WINDOW = 4_000
COMPACT = Compact(background_share=1.0, tail_share=0.2, max_summary_tokens=400)
SAID = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."


class Strict:
    """A server in front of the provider that renders its template first. Calls and their results do not count, as in
    Mistral's; in whatever format, it is the same template."""

    def __init__(self, provider, status=500):
        self.provider = provider
        self.status = status
        self.refused = 0

    async def __call__(self, scope, receive, send):
        body = b""
        while scope["type"] == "http":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["type"] == "http" and not self._alternates(scope["path"], body):
            self.refused += 1
            raw = json.dumps({"error": {"code": self.status, "message": SAID, "type": "server_error"}}).encode()
            await send({"type": "http.response.start", "status": self.status, "headers": []})
            await send({"type": "http.response.body", "body": raw})
            return
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return first.pop() if first else await receive()

        await self.provider(scope, again if scope["type"] == "http" else receive, send)

    def _alternates(self, path, body):
        messages = dialect_for(path).view(path, {}, body, Recall()).conversation.messages
        turns = []
        for message in messages:
            calls_tools = any(isinstance(part, ToolCall) for part in message.parts)
            if message.role in ("user", "assistant") and not calls_tools:
                turns.append(message.role)
        return all(role == ("user", "assistant")[number % 2] for number, role in enumerate(turns))


def text(label, tokens):
    return f"{label} " + "alpha beta gamma delta " * (tokens // 4)


def talk(turns, tokens=500):
    """People's and the model's words by turns, the last one a person's."""
    told = []
    for number in range(turns):
        told += [user(text(f"question {number}", tokens)), said(text(f"answer {number}", tokens // 4))]
    return [*told, user("And what of all that?")]


def work(rounds, tokens=500):
    """One question, and an agent that is still at it."""
    told = [user("Read it all.")]
    for number in range(rounds):
        told += [calls(f"c{number}"), result(f"c{number}", text(f"file {number}", tokens))]
    return told


def mixed(rounds, tokens=500):
    """An agent's earlier work, answered, and the next question."""
    return [*work(rounds, tokens), said("I have read it all."), user("What does it say?")]


async def called(house, name, told, model="gpt-4o"):
    speaker = SPEAKERS[name]
    body = {**speaker.body([], told), "model": model}
    if "max_tokens" in body:
        body["max_tokens"] = 500
    path = speaker.path.replace("demo-model", model)
    return await house.http.post(path, json=body, headers={"authorization": "Bearer k1", "x-api-key": "k1"})


@pytest.mark.parametrize("told", [talk(8), work(10), mixed(10)], ids=["talk", "work", "mixed"])
@pytest.mark.parametrize("window", [WINDOW, None], ids=["told", "untold"])
@pytest.mark.parametrize("name", SPEAKERS)
async def test_a_long_conversation_goes_on(name, window, told):
    server = Strict(a_provider(window=WINDOW, models=("gpt-4o", "of-unknown-window")))
    model = "gpt-4o" if window else "of-unknown-window"
    sections = {"window": window, "max_output": 500, "prune": NO_PRUNING, "compact": COMPACT}
    async with a_house(server, **sections) as house:
        first = await called(house, name, told, model)
        more = [*told, said("This."), user(text("another", 200))]
        second = await called(house, name, more, model)
        third = await called(house, name, [*more, said("That."), user("So?")], model)
        turns = await house.turns("main")
        elsewhere = await called(house, name, [user("Something else."), said("Well."), *told], model)
        refused = server.refused
        there = await called(house, name, [user("Something else again."), said("Well."), *told], model)

    assert [one.status_code for one in (first, second, third, elsewhere, there)] == [200] * 5
    assert first.headers["x-context-compacted"] == third.headers["x-context-compacted"] == "1"
    assert second.headers["x-context-basis"] == third.headers["x-context-basis"] == "anchored"
    assert all(abs(turn.estimated - turn.usage.input_tokens) <= 12 for turn in turns[1:])
    # Once is enough to know it.
    assert server.refused == refused <= 1


@pytest.mark.parametrize("name", SPEAKERS)
async def test_it_is_compacted_again_and_again(name):
    provider = a_provider(window=WINDOW)
    server = Strict(provider, 400)
    told = talk(8)
    async with a_house(server, window=WINDOW, max_output=500, prune=NO_PRUNING, compact=COMPACT) as house:
        await called(house, name, told)
        refused, statuses = server.refused, []
        for number in range(20):
            told = [*told, said(text(f"reply {number}", 300)), user(text(f"more {number}", 300))]
            statuses.append((await called(house, name, told)).status_code)

    assert set(statuses) == {200}
    assert server.refused == refused
    assert all(record.status == 200 for record in provider.received)
    written = [record for record in provider.received if is_summary_call(record.body)]
    assert len(written) >= 3


async def test_a_restart_does_not_have_to_learn_it_again():
    """What it would cost is a summary that is paid for and refused."""
    provider, ledger = a_provider(window=WINDOW), a_store()
    server, found = Strict(provider, 400), []
    for name in ("before", "behind"):
        async with a_house(
            server, ledger=ledger, window=WINDOW, max_output=500, prune=NO_PRUNING, compact=COMPACT
        ) as house:
            answer = await called(house, "chat", [user(name), said("Well."), *talk(8)])
            found.append((answer.status_code, answer.headers["x-context-compacted"], server.refused))

    assert found == [(200, "1", 1), (200, "1", 1)]
