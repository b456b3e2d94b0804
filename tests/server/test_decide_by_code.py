"""Calls that code makes for the model (programmatic tool calling): between that code and the client, in no prompt."""

import json

import pytest

from tests.server.house import EAGER, MODEL, NO_PRUNING, OFF, a_house, a_provider, answering, is_summary_call

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500
PROGRAM = "total = 0\nfor page in range(2):\n    total += len(await query(page=page))\nprint(total)"


def rows(page):
    """What only code reads: some 6,000 tokens."""
    return "\n".join(f'{{"row": {number}, "path": "src/page{page}/file{number}.py"}}' for number in range(300))


def in_messages(rounds=3, code=PROGRAM):
    """Each round: code that asks twice, what it prints, and a call of the model's own. A tool result's message ends a request."""
    history = [{"role": "user", "content": "count the rows, then read"}]
    for number in range(rounds):
        run = {"type": "server_tool_use", "id": f"srv{number}", "name": "code_execution", "input": {"code": code}}
        printed = {"type": "code_execution_result", "stdout": "600\n", "stderr": "", "return_code": 0, "content": []}
        done = {"type": "code_execution_tool_result", "tool_use_id": f"srv{number}", "content": printed}
        own = {
            "type": "tool_use",
            "id": f"read{number}",
            "name": "read",
            "input": {"n": number},
            "caller": {"type": "direct"},
        }
        by = {"type": "code_execution_20260120", "tool_id": f"srv{number}"}
        asks = [
            {"type": "tool_use", "id": f"q{number}{page}", "name": "query", "input": {"page": page}, "caller": by}
            for page in range(2)
        ]
        history += [
            {"role": "assistant", "content": [{"type": "text", "text": "I count."}, run, asks[0]]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": asks[0]["id"], "content": rows(number)}],
            },
            {"role": "assistant", "content": [asks[1]]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": asks[1]["id"], "content": rows(number)}],
            },
            {"role": "assistant", "content": [done, {"type": "text", "text": "600. Now I read."}, own]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": own["id"], "content": f"{number} {LONG}"}],
            },
        ]
    return history


def in_items(rounds=3, code=PROGRAM):
    """The same as items of the Responses API."""
    history = [{"type": "message", "role": "user", "content": "count the rows, then read"}]
    for number in range(rounds):
        by = {"type": "program", "caller_id": f"prog{number}"}
        history.append(
            {"type": "program", "id": f"p{number}", "call_id": f"prog{number}", "code": code, "fingerprint": "f"}
        )
        for page in range(2):
            call_id = f"q{number}{page}"
            asked = {"call_id": call_id, "caller": by}
            history += [
                {"type": "function_call", "name": "query", "arguments": json.dumps({"page": page}), **asked},
                {"type": "function_call_output", "output": rows(number), **asked},
            ]
        history += [
            {
                "type": "program_output",
                "id": f"po{number}",
                "call_id": f"prog{number}",
                "result": "600",
                "status": "completed",
            },
            {"role": "assistant", "content": [{"type": "output_text", "text": "600. Now I read."}]},
            {"type": "function_call", "call_id": f"read{number}", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"read{number}", "output": f"{number} {LONG}"},
        ]
    return history


def requests(history):
    """The history as it grows: up to each message that a client has to say."""
    said = [end for end, item in enumerate(history, 1) if item.get("role") == "user" or "output" in item]
    return [history[:end] for end in said]


async def call(house, history):
    """One request with this history, in the format whose items say their type."""
    if any(item.get("type") for item in history):
        body = {"model": MODEL, "input": history, "store": False}
        answer = await house.http.post("/v1/responses", json=body, headers={"authorization": "Bearer k1"})
    else:
        answer = await house.messages(history)
    assert answer.status_code == 200, answer.text


def sent_bodies(provider):
    """The histories that went out, without summary calls."""
    bodies = [json.loads(record.body) for record in provider.received if not is_summary_call(record.body)]
    return [body.get("messages") or body["input"] for body in bodies]


def blocks_of(history):
    return [
        block for item in history for block in (item["content"] if isinstance(item.get("content"), list) else [item])
    ]


def by_code(history):
    """Every call that code made and every result that goes to code, as they travel."""
    blocks = blocks_of(history)
    called = {block["id"] for block in blocks if block.get("type") == "tool_use" and "tool_id" in block["caller"]}
    return [
        block
        for block in blocks
        if block.get("id") in called or block.get("tool_use_id") in called or "caller_id" in block.get("caller", ())
    ]


def callers(history):
    """Ids of the code that calls were made by."""
    named = [block.get("caller", {}) for block in blocks_of(history)]
    return {caller.get("tool_id") or caller.get("caller_id") for caller in named} - {None}


def code_in(history):
    """Ids of the code that stands there."""
    found = [block for block in blocks_of(history) if block.get("type") in ("server_tool_use", "program")]
    return {block.get("call_id") or block["id"] for block in found}


CONVERSATIONS = pytest.mark.parametrize("conversation", [in_messages, in_items])


@CONVERSATIONS
async def test_estimates_are_near_what_is_reported(conversation):
    provider = a_provider()
    async with a_house(provider, prune=NO_PRUNING, compact=OFF) as house:
        for sent in requests(conversation()):
            await call(house, sent)
        turns = await house.turns()

    assert [turn.basis for turn in turns] == ["estimated", *["anchored"] * 9]
    assert [abs(turn.estimated - turn.usage.input_tokens) <= 8 for turn in turns] == [True] * 10
    assert 6_000 < turns[-1].usage.input_tokens < 7_000


@CONVERSATIONS
async def test_a_conversation_that_is_met_late_is_estimated_as_well(conversation):
    provider = a_provider()
    async with a_house(provider, prune=NO_PRUNING, compact=OFF) as house:
        await call(house, conversation())
        (turn,) = await house.turns()

    assert turn.basis == "estimated"
    assert abs(turn.estimated - turn.usage.input_tokens) <= 8


async def test_an_answer_in_which_only_code_went_on_reports_nothing_and_the_next_one_goes_on_from_before():
    """Recorded (sonnet-4-6): code that asks once more without the model having said anything counts 0 tokens in and out."""
    provider = a_provider()
    nothing = {"input_tokens": 0, "output_tokens": 0}
    history = in_messages(rounds=1)
    went_on = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": history[3]["content"]}
    went_on |= {"stop_reason": "tool_use", "stop_sequence": None, "usage": nothing}

    async def upstream(scope, receive, send):
        if scope["type"] == "http" and len(provider.received) == 2:
            provider.received.append(None)
            await answering(200, went_on)(receive, send)
        else:
            await provider(scope, receive, send)

    async with a_house(upstream, prune=NO_PRUNING, compact=OFF) as house:
        for sent in requests(history):
            await call(house, sent)
        *_, before, silent, after = await house.turns()

    assert (silent.comparable, silent.error) == (None, None)
    assert after.last_input == before.usage.input_tokens
    assert abs(after.estimated - after.usage.input_tokens) <= 8


@CONVERSATIONS
async def test_what_code_reads_goes_out_as_it_came_and_results_beside_it_are_pruned(conversation):
    provider = a_provider()
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        for sent in requests(conversation()):
            await call(house, sent)

    bodies = sent_bodies(provider)
    assert [by_code(body) for body in bodies] == [by_code(sent) for sent in requests(conversation())]
    assert len(by_code(bodies[-1])) == 12
    assert [str(bodies[-1]).count(f"{number} {LONG}") for number in range(3)] == [0, 0, 1]


@CONVERSATIONS
async def test_a_compaction_never_parts_code_from_its_calls(conversation):
    """Also while the code runs: it is longer than the tail may be, so that a cut would fall between its calls."""
    provider = a_provider(window=9_000)
    history = conversation(rounds=2, code=f"# {LONG}{LONG}\n{PROGRAM}")
    async with a_house(provider, window=9_000, max_output=500, prune=NO_PRUNING) as house:
        await call(house, requests(history)[-2])
        await call(house, requests(history)[-1])
        turns = await house.turns("main")

    running, done = sent_bodies(provider)
    assert [turn.edits for turn in turns] == [{"summarise": 1}] * 2
    assert callers(running) == code_in(running) == callers(done) == code_in(done)
    assert len(callers(running)) == 1
