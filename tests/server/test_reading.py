"""Long histories that are new are read one after the other; nobody else waits for them."""

import asyncio
from collections import Counter

import pytest

from proxy.dialects.openai_chat import view
from proxy.pruning import plan
from proxy.pruning.strategies.passages import Passages
from proxy.server import reading
from proxy.server.tokenizers import PIECE_CHARS
from tests.builders import calls, result, said, user
from tests.server.house import EAGER, OFF, a_house, a_provider

pytestmark = pytest.mark.anyio


def a_history(name, rounds=12, size=16_000):
    """Some 190 KB; no two names share any text."""
    history = [user(f"{name}: read it all.")]
    for number in range(rounds):
        text = "".join(f"{name}_{number}_{line} = value\n" for line in range(size // 22))
        history += [calls(f"c{number}"), result(f"c{number}", text)]
    return history


@pytest.fixture
def steps(monkeypatch):
    """Begin and end of each counting, by the first message's text."""
    seen = []
    warm = reading.warm

    async def watched(scale, conversation, known=0):
        name = conversation.messages[0].parts[0].text
        seen.append((name, "begins"))
        await warm(scale, conversation, known)
        seen.append((name, "ends"))

    monkeypatch.setattr(reading, "warm", watched)
    return seen


async def test_of_many_that_come_at_once_one_after_the_other_is_counted(steps):
    provider = a_provider()
    async with a_house(provider, compact=OFF) as house:
        answers = await asyncio.gather(*(house.chat(a_history(f"h{number}")) for number in range(5)))

    assert [answer.status_code for answer in answers] == [200] * 5
    assert len(steps) == 10
    assert all(
        before[0] == after[0] and (before[1], after[1]) == ("begins", "ends")
        for before, after in zip(steps[::2], steps[1::2], strict=True)
    )


async def test_meanwhile_the_loop_has_its_turns(steps):
    provider = a_provider()
    turns = {}

    async def count():
        while True:
            if steps:
                turns[len(steps)] = turns.get(len(steps), 0) + 1
            await asyncio.sleep(0)

    async with a_house(provider, compact=OFF) as house:
        counting = asyncio.create_task(count())
        await asyncio.gather(*(house.chat(a_history(f"h{number}")) for number in range(3)))
        counting.cancel()

    # While each of them is counted, a turn for every 32 KB.
    assert all(turns[place] >= 5 for place in (1, 3, 5))


class Turns:
    """How many bytes or characters were worked on in each turn of the loop."""

    def __init__(self):
        self.now, self.sizes = 0, Counter()
        self._counting = asyncio.create_task(self._count())

    async def _count(self):
        while True:
            self.now += 1
            await asyncio.sleep(0)

    def watch(self, monkeypatch, place, name, size_of):
        """Have each call of that function add to its turn; the number of calls stands in `calls`."""
        work, self.calls = getattr(place, name), 0

        def watched(*args, **named):
            self.calls += 1
            self.sizes[self.now] += size_of(*args)
            return work(*args, **named)

        monkeypatch.setattr(place, name, watched)

    def stop(self):
        self._counting.cancel()


@pytest.fixture
async def turns():
    counting = Turns()
    yield counting
    counting.stop()


async def test_a_very_long_history_that_is_new_is_read_in_many_turns_of_the_loop(monkeypatch, turns):
    turns.watch(monkeypatch, view, "parse_message", len)
    async with a_house(a_provider(), compact=OFF) as house:
        history = a_history("long", rounds=120)
        answer = await house.chat(history)
        again = await house.chat([*history, said("Read."), user("And?")])

    assert answer.status_code == again.status_code == 200
    assert turns.calls == len(history) + 2
    assert sum(turns.sizes.values()) > 1_800_000
    assert max(turns.sizes.values()) < 300_000
    assert len(house.handler.shared.recall.lines) == 1


@pytest.mark.parametrize(("mode", "looked_at"), [("prune", True), ("observe", True), ("off", False)])
async def test_its_lines_are_looked_at_in_many_turns_too(monkeypatch, turns, mode, looked_at):
    turns.watch(monkeypatch, Passages, "_add", lambda _passages, _entry, text: len(text))
    async with a_house(a_provider(), compact=OFF, mode=mode) as house:
        history = [*a_history("lines", rounds=30), said("Read."), *a_history("again", rounds=1)]
        assert (await house.chat(history)).status_code == 200

    assert turns.calls == (30 if looked_at else 0)
    assert max(turns.sizes.values(), default=0) < 3 * PIECE_CHARS


async def test_many_results_go_in_many_turns_of_the_loop(monkeypatch, turns):
    turns.watch(monkeypatch, plan, "placeholder", lambda result, *_: len(result.text))
    async with a_house(a_provider(), prune=EAGER, compact=OFF) as house:
        answer = await house.chat([*a_history("old", rounds=60), said("Read."), user("And?")])
        (turn,) = await house.turns()

    assert answer.status_code == 200
    assert turn.new_edits["clear"] == turns.calls >= 50
    assert max(turns.sizes.values()) < 100_000


async def test_who_goes_on_and_who_has_little_to_say_waits_for_nobody():
    provider = a_provider()
    history = a_history("known")
    async with a_house(provider, compact=OFF) as house:
        await house.chat(history)
        async with house.handler.shared.lane:
            new = asyncio.create_task(house.chat(a_history("new")))
            answers = [
                await house.chat([*history, said("Read."), user("And?")]),
                await house.chat([user("Hello.")]),
            ]
            waited = not new.done()
        answers.append(await new)

    assert [answer.status_code for answer in answers] == [200] * 3
    assert waited


async def test_what_little_is_new_is_counted_where_its_weight_is_needed(steps):
    provider = a_provider()
    history = a_history("known", rounds=4)
    async with a_house(provider, compact=OFF) as house:
        await house.chat(history)
        counted = len(steps)
        little = [*history, said("Read."), user("And?" * 1000)]
        await house.chat(little)
        assert len(steps) == counted == 2
        await house.chat([*little, said("Read."), user("And? " * PIECE_CHARS)])
        turns = await house.turns()

    assert len(steps) == 4
    assert all(turn.estimated == pytest.approx(turn.usage.input_tokens, rel=0.05) for turn in turns)


async def test_who_leaves_while_waiting_makes_room():
    provider = a_provider()
    async with a_house(provider, compact=OFF) as house:
        lane = house.handler.shared.lane
        async with lane:
            leaving = asyncio.create_task(house.chat(a_history("leaving")))
            async with asyncio.timeout(20):
                while not lane._waiters:
                    await asyncio.sleep(0.01)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            async with asyncio.timeout(20):
                while house.handler.shared.watch.open_calls or any(not one.done() for one in lane._waiters or ()):
                    await asyncio.sleep(0.01)
        answer = await house.chat(a_history("other"))

    assert answer.status_code == 200
    assert len(provider.received) == 1


@pytest.mark.parametrize(("mode", "looked_at"), [("prune", True), ("observe", True), ("off", False)])
async def test_names_are_looked_at_where_they_may_be_needed(monkeypatch, mode, looked_at):
    provider, seen = a_provider(), []
    monkeypatch.setattr(reading, "read_names", seen.extend)
    async with a_house(provider, compact=OFF, mode=mode) as house:
        history = a_history(mode)
        await house.chat(history)
        assert len(seen) == (len(history) if looked_at else 0)
        await house.chat([*history, said("Read."), user("And?")])

    assert len(seen) == (len(history) if looked_at else 0)
