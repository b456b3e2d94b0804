import gzip
import json

import pytest
from structlog.testing import capture_logs

from proxy.exchange import prepare as prepare_module
from proxy.server import decide, reading
from proxy.settings.values import Prune
from tests.builders import calls, messages_of, result, rounds, said, user
from tests.server.house import a_house, a_provider, eager
from tests.server.stores import Failing

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500
SEEN = [*rounds(LONG), said("read it"), user("next")]


def was_pruned(record):
    return LONG not in str(messages_of(record.body))


# A store that fails


@pytest.mark.parametrize("method", ["anchors", "plan", "decide", "settle", "learned", "learn"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_goes_on_when_the_store_fails(method, stream):
    provider = a_provider()
    async with eager(provider, ledger=Failing(method)) as house:
        first = await house.chat(SEEN, stream=stream)
        again = await house.chat([*SEEN, said("ok"), user("more")], stream=stream)

    assert first.status_code == again.status_code == 200
    assert first.headers["x-context-session"]
    assert len(provider.received) == 2


async def test_what_could_not_be_stored_is_not_sent():
    """Otherwise the next turn would not know of it, and the provider's cache would break."""
    provider = a_provider()
    with capture_logs() as logs:
        async with eager(provider, ledger=Failing("decide")) as house:
            answer = await house.chat(SEEN)
            (turn,) = await house.turns()

    assert messages_of(provider.received[0].body) == SEEN
    assert answer.headers["x-context-removed-tokens"] == "0"
    assert turn.failed_open == "decide"
    assert {"event": "failed_open", "log_level": "warning", "stage": "decide", "error": "StoreError"} in logs


async def test_a_store_that_forgets_everything_makes_each_call_a_first_one():
    provider = a_provider()
    async with eager(provider, ledger=Failing("anchors")) as house:
        await house.chat([user("a")])
        answer = await house.chat([user("a"), said("b"), user("c")])

    assert answer.headers["x-context-basis"] == "estimated"


async def test_what_is_left_of_a_plan_holds_for_the_calls_that_follow():
    """The result that ends the first request comes back without the note beside it: what was edited there is gone."""

    def read(number, text, *beside):
        call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"number": number}}
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer, *beside]}]

    coloured = "\x1b[31mred\x1b[0m " * 100
    history = [{"role": "user", "content": "Read it all."}, *read(0, LONG), *read(1, LONG + "!")]
    provider = a_provider()
    prune = Prune(policy="always", protect_tokens=0, minimum_tokens=1000)
    async with eager(provider, prune=prune) as house:
        await house.messages([*history, *read(2, coloured, {"type": "text", "text": "It is noon."})])
        history += read(2, coloured)
        for number in (3, 4, 5):
            history += read(number, "fine")
            await house.messages(history)
        turns = await house.turns()

    assert [turn.new_edits for turn in turns] == [{"ansi": 1, "clear": 2}, {}, {}, {}]
    assert [turn.edits for turn in turns[1:]] == [{"clear": 2}] * 3


# Errors of ours


def broken(*_, **__):
    raise KeyError("secret text of the user")


@pytest.mark.parametrize("name", ["arrive", "prune", "need_of"])
async def test_a_decision_that_trips_sends_the_original(name, monkeypatch):
    monkeypatch.setattr(prepare_module, name, broken)
    provider = a_provider()
    history = [*SEEN, calls("x"), result("x", LONG)]
    with capture_logs() as logs:
        async with eager(provider) as house:
            answer = await house.chat(history)
            (turn,) = await house.turns()

    assert answer.status_code == 200
    assert messages_of(provider.received[0].body) == history
    assert turn.failed_open == "prepare"
    assert "secret" not in str(logs)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (reading, "_received"),
        (reading, "receive"),
        (decide, "remember"),
        (reading, "warm"),
        (decide, "is_held_out"),
        (decide, "prepare"),
    ],
)
async def test_whatever_trips_before_a_call_is_decided_it_goes_out_as_it_came(module, name, monkeypatch):
    monkeypatch.setattr(module, name, broken)
    provider = a_provider()
    history = [*SEEN, said("long"), user(LONG)]
    with capture_logs() as logs:
        async with eager(provider) as house:
            answer = await house.chat(history)

    assert answer.status_code == 200
    assert messages_of(provider.received[0].body) == history
    assert [entry for entry in logs if entry["event"] == "failed_open"]
    assert "secret" not in str(logs)


# Modes


@pytest.mark.parametrize(("mode", "header", "pruned"), [
    ("prune", None, True),
    ("observe", None, False),
    ("off", None, False),
    ("prune", "off", False),
    ("prune", "OFF", False),
    ("prune", "observe", False),
    ("observe", "prune", True),
    ("off", "prune", True),
    ("prune", "nonsense", True),
])  # fmt: skip
async def test_the_requests_own_mode_wins_over_the_setting(mode, header, pruned):
    provider = a_provider()
    async with eager(provider, mode=mode) as house:
        answer = await house.chat(SEEN, headers={"x-context-mode": header} if header else {})

    assert was_pruned(provider.received[0]) is pruned
    assert (answer.headers["x-context-removed-tokens"] != "0") is pruned
    assert "x-context-mode" not in provider.received[0].headers


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("nonsense", "prune"),
        ("prune;q=1", "prune"),
        ("prune", None),
        ("Observe", None),
        ("off", None),
        ("", None),
        (None, None),
    ],
)
async def test_a_wish_that_is_none_of_the_modes_is_answered_with_the_one_in_force(header, told):
    provider = a_provider()
    with capture_logs() as logs:
        async with eager(provider) as house:
            answer = await house.chat(SEEN, headers={} if header is None else {"x-context-mode": header})
    warnings = [line for line in logs if line["event"] == "unknown_mode"]

    assert answer.status_code == 200
    assert answer.headers.get("x-context-mode") == told
    assert [line["mode"] for line in warnings] == ([told] if told else [])
    assert header is None or not told or header not in str(warnings)


async def test_r4_mode_off_still_measures():
    provider = a_provider()
    async with eager(provider, mode="off") as house:
        await house.chat(SEEN)
        answer = await house.chat([*SEEN, said("x"), user("y")])
        turns = await house.turns()

    assert answer.headers["x-context-basis"] == "anchored"
    assert [turn.usage.input_tokens > 0 for turn in turns] == [True, True]
    assert turns[1].turn == 2


# Bodies


async def test_a_compressed_body_is_read_and_goes_out_plain_where_it_is_changed():
    provider = a_provider()
    body = gzip.compress(json.dumps({"model": "gpt-4o", "messages": SEEN}).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    async with eager(provider) as house:
        answer = await house.http.post("/v1/chat/completions", content=body, headers=headers)

    assert answer.status_code == 200
    assert was_pruned(provider.received[0])
    assert "content-encoding" not in provider.received[0].headers


async def test_r35_a_compressed_body_without_an_edit_goes_out_as_it_came():
    seen = []

    async def upstream(scope, receive, send):
        if scope["type"] == "http":
            seen.append((await receive())["body"])
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"{}"})

    body = gzip.compress(b'{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}')
    async with a_house(upstream) as house:
        answer = await house.http.post("/v1/chat/completions", content=body, headers={"content-encoding": "gzip"})

    assert answer.headers["x-context-basis"] == "estimated"
    assert seen == [body]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b'{"messages":"x"}', b'{"model":"m","messages":[7]}'])
async def test_a_body_that_is_not_ours_to_read_passes_unread(body):
    provider = a_provider()
    async with a_house(provider) as house:
        answer = await house.http.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )

    assert answer.status_code >= 400
    assert provider.received[0].body == body
    assert "x-context-session" not in answer.headers


async def test_counting_requests_get_the_plan_and_are_no_turn():
    history = [
        {"role": "user", "content": "read"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": LONG}]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "and?"},
    ]
    provider = a_provider()
    async with eager(provider) as house:
        body = {"model": "gpt-4o", "messages": history}
        before = (await house.http.post("/v1/messages/count_tokens", json=body, headers={"x-api-key": "k1"})).json()
        await house.messages(history)
        after = (await house.http.post("/v1/messages/count_tokens", json=body, headers={"x-api-key": "k1"})).json()
        turns = await house.turns()

    assert before["input_tokens"] > 2000 > after["input_tokens"]
    assert len(turns) == 1


@pytest.mark.parametrize("by", [None, {"type": "direct"}, {"type": "code_execution_20250825", "tool_id": "s"}])
async def test_what_code_reads_goes_out_as_it_came(by):
    """Anthropic, "Programmatic tool calling": the results of such calls go to the code, and never into the prompt."""
    rows = "\n".join(f'{{"row": {number}, "path": "src/file{number}.py"}}' for number in range(200))
    history = [{"role": "user", "content": "count the rows"}]
    for number in range(3):
        call = {"type": "tool_use", "id": f"t{number}", "name": "query", "input": {"page": number}}
        results = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": rows}]
        history += [
            {"role": "assistant", "content": [{**call, "caller": by} if by else call]},
            {"role": "user", "content": results},
        ]
    provider = a_provider()
    async with eager(provider) as house:
        for end in (3, 5, 7):
            await house.messages(history[:end])

    untouched = [messages_of(record.body) for record in provider.received] == [history[:end] for end in (3, 5, 7)]
    assert untouched is (by is not None and by["type"] != "direct")


async def test_nothing_refers_to_what_only_code_has_read():
    rows = "\n".join(f'{{"row": {number}, "path": "src/file{number}.py"}}' for number in range(200))
    history = [{"role": "user", "content": "count the rows"}]
    for number, by in enumerate(("code_execution_20250825", "direct")):
        call = {"type": "tool_use", "id": f"t{number}", "name": "query", "input": {}, "caller": {"type": by}}
        results = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": rows}]
        history += [{"role": "assistant", "content": [call]}, {"role": "user", "content": results}]
    provider = a_provider()
    async with eager(provider) as house:
        await house.messages(history)

    assert messages_of(provider.received[0].body) == history
