"""Agents that compact by themselves: they ask for a summary, then go on with a history that begins with it.

Their call must get the whole of what it is about, and what we decided for the old history must not reach into the new one,
though call ids, tool names and some messages are the same.
"""

import asyncio
import json

import pytest

from tests.bench.speakers import MODEL, SPEAKERS
from tests.builders import calls, result, said, user
from tests.server.house import EAGER, OFF, a_house, a_provider

pytestmark = pytest.mark.anyio

TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
STEPS = 4
DONE = "The parser was fixed, its tests pass, the documentation is still to be written. " * 40

# Who speaks what: the system text of its compaction call, its last message, whether tools come with it, and how the
# history begins that it goes on with.
CLAUDE_CODE = (
    None,
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary.",
    True,
    "This session is being continued from a previous conversation that ran out of context. The summary:\n{}",
)
CODEX = (
    None,
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM.",
    False,
    "Another language model started to solve this problem and produced a summary of its thinking process.\n{}",
)
QWEN = (
    "You are the component that summarizes internal chat history into a given structure.",
    "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
    False,
    "<state_snapshot>\n{}\n</state_snapshot>",
)
UNKNOWN = (None, "Sum up all that was done, in a few words.", False, "What was done before: {}")
"""An agent that we know nothing about: its call is an ordinary one to us."""


def text_of(line, number):
    return f"{line} result {number}: " + f"{line}{number} lorem ipsum dolor sit amet " * 60


def step(line, number):
    return [calls(f"c{number}"), result(f"c{number}", text_of(line, number))]


class Agent:
    """An agent in one wire format. What it sent and what reached the provider are kept side by side."""

    def __init__(self, house, provider, name):
        self.house, self.provider, self.speaker = house, provider, SPEAKERS[name]
        self.sent = []

    async def call(self, history, *, tools=True, **changes):
        body = json.dumps(self.speaker.body(TOOLS if tools else [], history) | changes).encode()
        answer = await self.house.http.post(
            self.speaker.path, content=body, headers={"authorization": "Bearer k", "content-type": "application/json"}
        )
        self.sent.append(body)
        assert answer.status_code == 200, answer.text
        while len(await self.house.turns()) < len(self.sent):
            await asyncio.sleep(0.01)
        return answer.headers

    def arrived(self):
        """The body that reached the provider last."""
        return self.provider.received[-1].body

    def shows(self, line, number):
        """Whether a result reached it whole."""
        return json.dumps(text_of(line, number))[1:-1].encode() in self.arrived()


async def worked(agent):
    """An agent at work until its history has been pruned; gives that history."""
    history = [said_by_system(), user("read everything")]
    for number in range(STEPS):
        history += step("old", number)
        notes = await agent.call(history)
    assert [agent.shows("old", number) for number in range(STEPS)] == [False] * (STEPS - 1) + [True]
    return history, notes["x-context-session"]


def said_by_system(text="You are an agent."):
    return {"role": "system", "content": text}


PAIRS = [
    pytest.param(name, client, id=f"{name}-{client_name}")
    for name in SPEAKERS
    for client_name, client in {"claude_code": CLAUDE_CODE, "codex": CODEX, "qwen": QWEN, "unknown": UNKNOWN}.items()
]


@pytest.mark.parametrize(("name", "client"), PAIRS)
async def test_an_agent_that_compacts_by_itself_is_not_disturbed(name, client):
    system, asks, with_tools, begins = client
    provider = a_provider(models=(MODEL,))
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        agent = Agent(house, provider, name)
        history, session = await worked(agent)

        # Its own call: known decisions, so that the cache holds, and no new ones.
        own = [said_by_system(system), *history[1:]] if system else history
        await agent.call([*own, said("all read"), user(asks)], tools=with_tools)
        shown = [agent.shows("old", number) for number in range(STEPS)]
        (asked,) = (await house.turns())[STEPS:]

        # It goes on with its summary.
        fresh = [said_by_system(), user(begins.format(f"All files were read. {DONE}")), user("go on")]
        first = await agent.call(fresh)
        arrived = agent.arrived()
        second = await agent.call([*fresh, *step("new", 0)])
        whole = agent.shows("new", 0)
        await agent.call([*fresh, *step("new", 0), *step("new", 1)])
        *_, turn_one, turn_two, turn_three = await house.turns()

    if client is UNKNOWN:
        assert asked.purpose == "main"
    else:
        assert (asked.purpose, asked.new_edits) == ("utility", {})
        assert shown == [False] * (STEPS - 1) + [True]
    assert asked.session == session
    # A line of its own, which went out as it came.
    assert first["x-context-session"] != session
    assert (first["x-context-basis"], first["x-context-removed-tokens"]) == ("estimated", "0")
    assert arrived == agent.sent[STEPS + 1]
    # From then on it stands on the usage that was reported.
    assert (second["x-context-session"], second["x-context-basis"]) == (first["x-context-session"], "anchored")
    assert whole
    assert (turn_one.turn, turn_two.turn, turn_three.turn) == (1, 2, 3)
    # The first result of the new line has the id of one that was cleared in the old; now it was seen, too.
    assert turn_three.new_edits == {"clear": 1}
    assert (turn_one.failed_open, turn_two.failed_open, turn_three.failed_open) == ("", "", "")


@pytest.mark.parametrize("name", SPEAKERS)
async def test_an_agent_that_keeps_its_last_steps_gets_them_whole(name):
    """The kept results are the old ones, byte for byte, and were seen; in the new history they are as new."""
    provider = a_provider(models=(MODEL,))
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        agent = Agent(house, provider, name)
        history, session = await worked(agent)
        fresh = [said_by_system(), user("<state_snapshot>\nread\n</state_snapshot>"), *history[-2:]]
        notes = await agent.call(fresh)
        shown = agent.shows("old", STEPS - 1)
        arrived = agent.arrived()

    assert shown
    assert arrived == agent.sent[-1]
    assert (notes["x-context-basis"], notes["x-context-removed-tokens"]) == ("estimated", "0")
    assert notes["x-context-session"] != session


async def test_a_compaction_trigger_goes_out_as_it_came_but_for_what_was_decided_before():
    provider = a_provider(models=(MODEL,))
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        agent = Agent(house, provider, "responses")
        history, _ = await worked(agent)
        body = agent.speaker.body(TOOLS, [*history, said("all read")])
        items = [*body["input"], {"type": "compaction_trigger"}]
        await agent.call(history, input=items)
        shown = [agent.shows("old", number) for number in range(STEPS)]
        asked = (await house.turns())[-1]

    assert (asked.purpose, asked.new_edits) == ("utility", {})
    assert shown == [False] * (STEPS - 1) + [True]
    assert json.loads(agent.arrived())["input"][-1] == {"type": "compaction_trigger"}
