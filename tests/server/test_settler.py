"""Calls that end together: each has its own row, and one that trips costs the others nothing."""

import json
import sys

import pytest

from proxy.server.events import configure
from proxy.server.settling import settled
from tests.builders import said, user
from tests.server.house import MODEL, a_house, a_provider
from tests.server.test_events import Full

pytestmark = pytest.mark.anyio


class Held:
    """Stands in front of a house's settler until all calls are there."""

    def __init__(self, house):
        self.ended = []
        self._settler = house.handler._settler
        house.handler._settler = self

    def add(self, call, end):
        self.ended.append((call, end))

    async def settle(self):
        for call, end in self.ended:
            self._settler.add(call, end)
        await settled()


async def three_calls(house):
    held = Held(house)
    for text in ("one", "two", "three"):
        assert (await house.chat([user(text)])).status_code == 200
    assert await house.turns() == []
    return held


def failures(house):
    return house.handler.shared.watch.metrics.failures["settle"]


async def test_calls_that_end_together_have_a_row_an_anchor_and_a_line_each(capsys):
    configure(form="json", level="info")
    async with a_house(a_provider()) as house:
        held = await three_calls(house)
        await held.settle()
        turns = await house.turns()
        keys = [call.ready.anchor.key for call, _ in held.ended]
        anchors = await house.ledger.anchors(keys)

    assert [turn.outcome for turn in turns] == ["ok"] * 3
    assert len({turn.session for turn in turns}) == 3
    assert [anchor.session for anchor in anchors] == [call.ready.anchor.session for call, _ in held.ended]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    said = [line["session"] for line in lines if line["event"] == "context_estimate"]
    assert sorted(said) == sorted(turn.session for turn in turns)


async def test_a_log_that_cannot_be_written_costs_no_row_and_no_anchor(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Full())
        configure(form="json", level="info")
        async with a_house(a_provider()) as house:
            held = await three_calls(house)
            held.ended[1][0].reader = "no reader"
            await held.settle()

            assert len(await house.turns()) == 2
            assert None not in await house.ledger.anchors([call.ready.anchor.key for call, _ in held.ended[::2]])


async def test_one_that_trips_costs_the_others_nothing():
    async with a_house(a_provider()) as house:
        held = await three_calls(house)
        held.ended[1][0].reader = "no reader"
        before = failures(house)
        await held.settle()

        assert failures(house) == before + 1
        assert len(await house.turns()) == 2


async def test_a_step_that_fails_keeps_no_other_from_being_done(monkeypatch):
    async with a_house(a_provider()) as house:
        held = await three_calls(house)

        def trip(_turn):
            raise RuntimeError

        monkeypatch.setattr(house.handler.shared.watch, "settled", trip)
        before = failures(house)
        await held.settle()

        assert failures(house) == before + 3
        assert len(await house.turns()) == 3


async def test_a_call_is_kept_under_its_other_keys_too():
    async with a_house(a_provider()) as house:
        held = Held(house)
        first = await house.http.post("/v1/responses", json={"model": MODEL, "input": "one"})
        chat = await house.chat([user("do it"), user("It is 12 o'clock.")])
        await held.settle()
        again = {"model": MODEL, "input": "two", "previous_response_id": first.json()["id"]}
        second = await house.http.post("/v1/responses", json=again)
        told = await house.chat([user("do it"), said("You said"), user("go on")])
        await held.settle()

    for earlier, later in ((first, second), (chat, told)):
        assert later.headers["x-context-session"] == earlier.headers["x-context-session"]
        assert later.headers["x-context-basis"] == "anchored"
