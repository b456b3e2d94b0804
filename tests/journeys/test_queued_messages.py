"""Messages that a person queues while an agent works: said once, behind the tool results, and there for ever after."""

import json

import httpx
import pytest

from proxy.demo.provider import Answer, Call
from tests.server.control.lodge import a_lodge
from tests.server.house import a_provider

pytestmark = pytest.mark.anyio

NOTE = "please keep the changelog"


def working(steps):
    """Answers of an agent's model: so many tool calls, then a text."""

    def answers(asked, headers):
        number = asked.assistants
        if number < steps:
            call = Call(call_id=f"toolu_{number:02}", name="read", arguments=json.dumps({"path": f"f{number}.py"}))
            return Answer(text=f"step {number}", calls=(call,))
        return Answer(text=f"done after {number}")

    return answers


async def test_r24_c57_in_a_messages_tool_loop_they_are_said_once_and_stay():
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    history = [{"role": "user", "content": "read everything"}]
    async with a_lodge(a_provider(answers=working(5))) as lodge:
        for turn in range(5):
            answer = await lodge.messages(history, tools=tools)
            assert answer.status_code == 200, answer.text
            session = answer.headers["x-context-session"]
            blocks = answer.json()["content"]
            (call,) = [block for block in blocks if block["type"] == "tool_use"]
            history += [
                {"role": "assistant", "content": blocks},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "x = 1"}]},
            ]
            if turn == 1:
                positions = [(await lodge.queue(session, text)).json()["position"] for text in (NOTE, "and the docs")]
        waiting = await lodge.get(f"/_proxy/api/sessions/{session}/queue")
        (edit,) = (await lodge.get(f"/_proxy/api/sessions/{session}/edits"))["edits"]

    assert positions == [1, 2]
    assert waiting["queue"] == []
    assert (edit["kind"], edit["after"]) == ("insert", f"{NOTE}\n\nand the docs")
    bodies = [lodge.sent(number)["messages"] for number in range(5)]
    assert [json.dumps(body).count(NOTE) for body in bodies] == [0, 0, 1, 1, 1]
    # Behind the results of the second call, and from then on at the same place: the cached prefix holds.
    said = bodies[2].index({"role": "user", "content": f"{NOTE}\n\nand the docs"})
    assert bodies[2][said - 1]["content"][0]["type"] == "tool_result"
    assert said == len(bodies[2]) - 1
    assert bodies[3][: said + 1] == bodies[2]
    assert bodies[4][: len(bodies[3])] == bodies[3]


async def test_in_a_chat_loop_they_are_said_once_and_predictions_hold():
    history = [{"role": "user", "content": "hello"}]
    async with a_lodge() as lodge:
        for turn in range(4):
            answer = await lodge.chat(history)
            session = answer.headers["x-context-session"]
            history += [answer.json()["choices"][0]["message"], {"role": "user", "content": f"turn {turn}"}]
            if turn == 0:
                await lodge.queue(session, NOTE)
        turns = (await lodge.get(f"/_proxy/api/sessions/{session}"))["turns"]

    bodies = [lodge.sent(number)["messages"] for number in range(4)]
    assert [body.count({"role": "user", "content": NOTE}) for body in bodies] == [0, 1, 1, 1]
    assert bodies[2][: len(bodies[1])] == bodies[1]
    assert [turn["new_edits"] for turn in reversed(turns)] == [{}, {"insert": 1}, {}, {}]
    assert [line.partition(": ")[2] for turn in turns for line in turn["decisions"]] == ["a queued user message"]
    # The first one has no earlier call to stand on; the others must know what was put in.
    assert all(abs(turn["error"]) <= 5 for turn in turns[:3])


async def test_in_a_gemini_conversation_they_are_a_further_user_turn():
    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    contents = [{"role": "user", "parts": [{"text": "hello"}]}]
    async with a_lodge() as lodge:
        answer = await lodge.http.post(path, json={"contents": contents})
        await lodge.queue(answer.headers["x-context-session"], NOTE)
        contents += [answer.json()["candidates"][0]["content"], {"role": "user", "parts": [{"text": "go on"}]}]
        again = await lodge.http.post(path, json={"contents": contents})

    assert again.status_code == 200
    assert lodge.sent()["contents"][-1] == {"role": "user", "parts": [{"text": NOTE}]}


async def test_in_a_responses_conversation_they_are_a_further_item():
    history = [{"role": "user", "content": "hello"}]
    async with a_lodge() as lodge:
        answer = await lodge.http.post("/v1/responses", json={"model": "gpt-4o", "input": history})
        await lodge.queue(answer.headers["x-context-session"], NOTE)
        history += [*answer.json()["output"], {"role": "user", "content": "go on"}]
        again = await lodge.http.post("/v1/responses", json={"model": "gpt-4o", "input": history})

    assert again.status_code == 200
    assert NOTE in json.dumps(lodge.sent()["input"][-1])


async def begun(lodge):
    """A conversation with one message that waits; gives its history for the next call, and its session."""
    history = [{"role": "user", "content": "hello"}]
    answer = await lodge.chat(history)
    session = answer.headers["x-context-session"]
    await lodge.queue(session, NOTE)
    return [*history, answer.json()["choices"][0]["message"], {"role": "user", "content": "go on"}], session


async def waiting_in(lodge, session):
    return [one["text"] for one in (await lodge.get(f"/_proxy/api/sessions/{session}/queue"))["queue"]]


async def test_a_retry_says_the_same():
    async with a_lodge() as lodge:
        history, session = await begun(lodge)
        await lodge.chat(history)
        await lodge.chat(history)

        assert lodge.provider.received[-1].body == lodge.provider.received[-2].body
        assert await waiting_in(lodge, session) == []


async def test_after_a_call_that_failed_they_wait_again_and_are_still_said_once():
    async with a_lodge() as lodge:
        history, session = await begun(lodge)
        lodge.provider.refuse_next(529, {"error": {"message": "overloaded"}})
        assert (await lodge.chat(history)).status_code == 529
        assert await waiting_in(lodge, session) == [NOTE]

        await lodge.chat(history)
        assert await waiting_in(lodge, session) == []
        assert json.dumps(lodge.sent()).count(NOTE) == 1


async def test_what_the_provider_refuses_to_hear_waits_again():
    """The request then goes out as the client sent it."""
    async with a_lodge() as lodge:
        history, session = await begun(lodge)
        lodge.provider.refuse_next(400, {"error": {"message": "no such message here"}})
        answer = await lodge.chat(history)

        assert answer.status_code == 200
        assert NOTE not in json.dumps(lodge.sent())
        assert await waiting_in(lodge, session) == [NOTE]


async def test_a_client_that_goes_another_way_after_a_failure_hears_them_there():
    async with a_lodge() as lodge:
        history, session = await begun(lodge)
        lodge.provider.refuse_next(500, {"error": {"message": "broken"}}, times=2)
        await lodge.chat(history)
        other = [*history[:-1], {"role": "user", "content": "something else"}]
        await lodge.chat(other)
        answer = await lodge.chat(other)

        assert answer.status_code == 200
        assert json.dumps(lodge.sent()).count(NOTE) == 1
        assert await waiting_in(lodge, session) == []


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_while_the_proxy_only_watches_they_wait(mode):
    async with a_lodge() as lodge:
        history, session = await begun(lodge)
        await lodge.chat(history, headers={"x-context-mode": mode})

        assert NOTE not in json.dumps(lodge.sent())
        assert await waiting_in(lodge, session) == [NOTE]


async def test_counting_a_request_does_not_use_them_up():
    async with a_lodge() as lodge:
        history = [{"role": "user", "content": "hello"}]
        answer = await lodge.messages(history)
        session = answer.headers["x-context-session"]
        await lodge.queue(session, NOTE)
        history += [{"role": "assistant", "content": answer.json()["content"]}, {"role": "user", "content": "on"}]
        counted = await lodge.http.post("/v1/messages/count_tokens", json={"model": "gpt-4o", "messages": history})

        assert counted.status_code == httpx.codes.OK
        assert await waiting_in(lodge, session) == [NOTE]


async def test_other_conversations_hear_nothing():
    async with a_lodge() as lodge:
        await begun(lodge)
        await lodge.chat([{"role": "user", "content": "a stranger"}])

        assert NOTE not in json.dumps(lodge.sent())
