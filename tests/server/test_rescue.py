"""Overflows: what is learned of them, and the one more try."""

import pytest

from proxy.compaction.policy import NO_MODEL
from proxy.server import policies
from proxy.settings.values import Compact, ModelSettings
from proxy.tokens.windows import Limits
from tests.bench.speakers import SPEAKERS
from tests.builders import calls, messages_of, result, rounds, said, user
from tests.server.house import (
    EAGER,
    MODEL,
    NO_PRUNING,
    OFF,
    UNAWARE,
    Troubled,
    a_house,
    a_provider,
    answering,
    is_summary_call,
    long_history,
)
from tests.server.stores import a_store

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500
NOT_ALLOWED = {"error": {"message": "messages[2]: content is not allowed", "type": "invalid_request_error"}}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_overflow_of_a_window_that_nobody_told_us_is_rescued(stream):
    provider = a_provider(window=3000)
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.chat(long_history(), stream=stream)
        (turn,) = await house.turns("main")
        later = await house.chat([*long_history(), said("This."), user("And?")], stream=stream)

    assert answer.status_code == later.status_code == 200
    assert provider.received[0].status == 400
    assert messages_of(provider.received[0].body) == long_history()
    assert messages_of(provider.received[-1].body)[-1] == user("And?")
    assert turn.outcome == "ok"
    assert turn.window is not None
    assert turn.window <= 3000
    assert [record.status for record in provider.received][-1] == 200


def messages_history():
    """The same for the Messages API."""
    history = [{"role": "user", "content": "Please read it all."}]
    for number in range(8):
        text = f"file {number} " + "alpha beta gamma delta " * 150
        history += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text}]},
        ]
    return [*history, {"role": "assistant", "content": "Read."}, {"role": "user", "content": "So?"}]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_overflow_of_the_messages_api_is_rescued(stream):
    provider = a_provider(window=3000)
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.messages(messages_history(), stream=stream)

    assert answer.status_code == 200
    assert provider.received[0].status == 400
    assert provider.received[-1].status == 200
    assert b"So?" in provider.received[-1].body


async def test_the_learned_window_is_kept_for_the_next_conversation():
    provider = a_provider(window=3000)
    async with a_house(provider, **UNAWARE) as house:
        await house.chat(long_history())
        before = len(provider.received)
        answer = await house.chat([user("Another."), *long_history()[1:]])

    assert answer.status_code == 200
    assert all(record.status == 200 for record in provider.received[before:])


async def test_a_known_limit_of_the_input_alone_is_not_learned_as_the_window(monkeypatch):
    monkeypatch.setattr(policies, "limits_for", lambda *given, **more: Limits(window=6000, max_input=3000))
    provider = a_provider(window=3000, hidden_tokens=600)
    compact = Compact(trigger="off", model=NO_MODEL, max_summary_tokens=400)
    async with a_house(provider, prune=NO_PRUNING, compact=compact) as house:
        answer = await house.chat(long_history(4))
        window = await house.handler.shared.habits.window("openai", MODEL)

    assert [record.status for record in provider.received] == [400, 200]
    assert answer.status_code == 200
    assert window is None


RECORDS = Compact(model=NO_MODEL, max_summary_tokens=400)
TOO_LONG = "maximum context length is 3000 tokens."


def too_long(said):
    return {"error": {"message": said, "type": "invalid_request_error"}}


BYTES = {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}
NUMBERLESS = too_long("Input is too long for requested model.")


@pytest.mark.parametrize(
    ("status", "said_first", "learned"),
    [
        # Of bytes it says nothing of a window, though a smaller body passes.
        (413, BYTES, False),
        # A guess that has proven itself.
        (400, NUMBERLESS, True),
    ],
)
async def test_a_window_that_no_refusal_names_is_learned_where_a_smaller_body_passes(status, said_first, learned):
    provider = a_provider()
    provider.refuse_next(status, said_first)
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.chat(long_history(), model="of-unknown-window")
        window = await house.handler.shared.habits.window("openai", "of-unknown-window")

    assert answer.status_code == 200
    assert len(messages_of(provider.received[-1].body)) <= len(long_history())
    assert (window is not None) == learned


async def test_a_limit_in_bytes_may_lie_far_below_the_window():
    provider = a_provider()
    provider.refuse_next(413, BYTES)
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.chat(long_history(), model="gpt-4.1")

    assert answer.status_code == 200
    assert [record.status for record in provider.received] == [413, 200]
    assert len(provider.received[1].body) < len(provider.received[0].body)


@pytest.mark.parametrize("said_first", [b"", NUMBERLESS])
async def test_a_window_that_no_refusal_names_is_not_learned_from_one_that_size_does_not_explain(said_first):
    provider = a_provider()
    provider.refuse_next(400, said_first, times=2)
    async with a_house(provider, **UNAWARE) as house:
        refused = await house.chat(long_history(), model="of-unknown-window")
        window = await house.handler.shared.habits.window("openai", "of-unknown-window")
        answer = await house.chat([user("Another."), *long_history()[1:]], model="of-unknown-window")

    assert (refused.status_code, window) == (400, None)
    assert answer.headers["x-context-removed-tokens"] == "0"


async def test_a_named_window_that_the_request_is_far_below_is_none():
    provider = a_provider()
    provider.refuse_next(400, too_long("This model's maximum context length is 1048576 tokens."))
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.chat(long_history(), model="of-unknown-window")
        window = await house.handler.shared.habits.window("openai", "of-unknown-window")

    assert (answer.status_code, window) == (400, None)
    assert len(provider.received) == 1


async def test_an_answer_to_more_than_the_learned_window_shows_that_it_was_wrong():
    """vLLM 0.15 named what the wished answer leaves of the window in its place (vllm-project/vllm#33418)."""
    provider = a_provider()
    said = "This model's maximum context length is 600 tokens. However, your request has 4800 input tokens."
    provider.refuse_next(400, too_long(said))
    history = [user("alpha beta gamma delta " * 400)]
    async with a_house(provider, **UNAWARE) as house:
        await house.chat(long_history(), model="of-unknown-window")
        habits = house.handler.shared.habits
        wrong = await habits.window("openai", "of-unknown-window")
        first = await house.chat(history, model="of-unknown-window")
        right = await habits.window("openai", "of-unknown-window")
        second = await house.chat([*history, said_by_it(first), user("And?")], model="of-unknown-window")
        third = await house.chat(
            [*history, said_by_it(first), user("And?"), said_by_it(second), user("So?")], model="of-unknown-window"
        )

    assert (wrong, right) == (600, None)
    assert third.headers["x-context-basis"] == "anchored"
    assert third.headers["x-context-removed-tokens"] == "0"


def said_by_it(answer):
    return {"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]}


async def test_what_cannot_be_made_to_fit_is_the_providers_own_error():
    provider = a_provider(window=1000)
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.chat([user("alpha beta gamma delta " * 1000)])
        (turn,) = await house.turns("main")

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert len(provider.received) == 1
    assert turn.outcome == "error"


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_nothing_is_rescued_unasked(mode):
    provider = a_provider(window=3000)
    async with a_house(provider, mode=mode) as house:
        answer = await house.chat(long_history())

    assert answer.status_code == 400
    assert len(provider.received) == 1


async def test_an_overflow_inside_a_stream_is_rescued_before_the_client_sees_it():
    overflow = (
        b'data: {"error":{"message":"maximum context length is 3000 tokens","code":"context_length_exceeded"}}\n\n'
    )
    provider = a_provider()
    seen = []

    async def upstream(scope, receive, send):
        if scope["type"] == "http" and not seen:
            seen.append(1)
            while (await receive()).get("more_body"):
                pass
            await answering(200, overflow, "text/event-stream")(receive, send)
            return
        await provider(scope, receive, send)

    async with a_house(upstream, **UNAWARE) as house:
        answer = await house.chat(long_history(), stream=True, model="of-unknown-window")

    assert answer.status_code == 200
    assert b"context_length_exceeded" not in answer.content
    assert b"You said" in answer.content


async def test_a_second_overflow_is_not_tried_a_third_time():
    provider = a_provider()
    overflow = {
        "error": {"message": "This model's maximum context length is 3000 tokens.", "code": "context_length_exceeded"}
    }
    plain = Troubled(provider, answering(200, {"choices": []}))
    provider.refuse_next(400, overflow, times=5)
    async with a_house(plain, **UNAWARE) as house:
        answer = await house.chat(long_history())

    assert (answer.status_code, answer.json()) == (400, overflow)
    assert len(provider.received) == 2


async def test_a_line_whose_rewrite_was_refused_once_is_rescued_all_the_same():
    provider = a_provider(window=3000)
    refused = [*rounds(LONG[:2000]), said("read it"), user("next")]
    async with a_house(provider, prune=EAGER, compact=Compact(max_summary_tokens=400)) as house:
        provider.refuse_next(400, NOT_ALLOWED)
        await house.chat(refused)
        grown = [*refused, said("So."), *long_history()[1:]]
        first = await house.chat(grown)
        before = len(provider.received)
        second = await house.chat([*grown, said("This."), user("And?")])
        turns = await house.turns("main")

    assert [first.status_code, second.status_code] == [200, 200]
    assert turns[0].failed_open == "refused"
    assert second.headers["x-context-removed-tokens"] == first.headers["x-context-removed-tokens"] != "0"
    assert second.headers["x-context-basis"] == "anchored"
    # What the provider has taken stays; beyond that nothing is decided there before it asks for it again.
    assert len(provider.received) == before + 1
    assert turns[-1].skipped == "refused"


async def test_a_summary_that_was_made_for_a_wrong_window_is_made_anew():
    provider = a_provider(window=3000)
    compact = Compact(background_share=1.0, tail_share=0.9, max_summary_tokens=400)
    async with a_house(
        provider, models={"*": ModelSettings(max_output=500)}, prune=NO_PRUNING, compact=compact, window=None
    ) as house:
        await house.handler.shared.habits.learn_window("openai", "of-unknown-window", 5000)
        answer = await house.chat(long_history(), model="of-unknown-window")

    assert answer.status_code == 200
    assert [record.status for record in provider.received if not is_summary_call(record.body)] == [400, 200]


class Instead:
    """A provider whose refusals for length a server tells in its own way, at most so often."""

    def __init__(self, provider, tell, times=100):
        self.provider = provider
        self.tell = tell
        self.left = times

    async def __call__(self, scope, receive, send):
        told = []

        async def out(message):
            if message["type"] == "http.response.start" and message["status"] == 400 and self.left:
                self.left -= 1
                told.append(1)
            if not told:
                await send(message)

        await self.provider(scope, receive, out)
        if told:
            await self.tell(receive, send)


async def test_where_no_refusal_names_the_window_one_try_goes_far_enough():
    """A conversation that has come from a larger model."""
    provider = Instead(a_provider(window=4000), answering(400, NUMBERLESS))
    async with a_house(provider, **UNAWARE) as house:
        answer = await house.chat(long_history(20), model="of-unknown-window")

    assert answer.status_code == 200
    assert [record.status for record in provider.provider.received if not is_summary_call(record.body)] == [400, 200]


@pytest.mark.parametrize("status", [401, 429, 503])
async def test_an_error_that_is_not_about_the_body_is_told_as_it_is_and_the_next_try_goes_on(status):
    provider = a_provider(window=3000)
    wait = {"error": {"message": "later", "type": "other"}}
    async with a_house(provider, prune=NO_PRUNING, compact=RECORDS) as house:
        provider.refuse_next(400, too_long(f"This model's {TOO_LONG}"))
        provider.refuse_next(status, wait)
        refused = await house.chat(long_history(), model="of-unknown-window")
        answer = await house.chat(long_history(), model="of-unknown-window")

    assert (refused.status_code, refused.json()) == (status, wait)
    assert answer.status_code == 200
    assert len(provider.received) == 3


async def test_a_rescue_that_is_refused_behind_a_200_is_none():
    late = b'data: {"error":{"message":"Token limit reached","code":400}}\n\n'
    first = too_long(f"This model's {TOO_LONG}")
    asked = []

    async def upstream(scope, receive, send):
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        asked.append(1)
        told = answering(400, first) if len(asked) == 1 else answering(200, late, "text/event-stream")
        await told(receive, send)

    async with a_house(upstream, prune=NO_PRUNING, compact=RECORDS) as house:
        answer = await house.chat(long_history(4, 1500), stream=True, model="of-unknown-window")

    assert (answer.status_code, answer.json()) == (400, first)
    assert len(asked) == 2


async def test_a_request_that_is_sent_again_is_rescued_like_a_new_one():
    provider = a_provider(window=3000)
    coloured = "\x1b[32mfine\x1b[0m\n" * 60
    big = "\n".join(f"row {number:06d} alpha beta gamma" for number in range(700))
    history = [user("Look."), calls("c1", "c2"), result("c1", coloured), result("c2", big)]
    async with a_house(provider, compact=OFF) as house:
        provider.refuse_next(503, {"error": {"message": "busy"}})
        busy = await house.chat(history, model="of-unknown-window")
        answer = await house.chat(history, model="of-unknown-window")

    assert (busy.status_code, answer.status_code) == (503, 200)
    assert [record.status for record in provider.received] == [503, 400, 200]
    assert "characters left out here" in str(messages_of(provider.received[-1].body)[3])


@pytest.mark.parametrize("restarts", [0, 3])
async def test_a_window_that_was_only_guessed_keeps_no_later_overflow_from_being_seen(restarts):
    """OpenAI's Responses names none, and says so behind a 200."""
    provider, ledger = a_provider(window=6000), a_store()
    speaker = SPEAKERS["responses"]
    statuses = []
    history = long_history(24)
    for _ in range(restarts + 1):
        async with a_house(provider, ledger=ledger, prune=NO_PRUNING, compact=RECORDS) as house:
            for number in range(24 // (restarts + 1)):
                body = {**speaker.body([], history), "model": "of-unknown-window", "max_output_tokens": 200}
                answer = await house.http.post(speaker.path, json=body, headers={"authorization": "Bearer k1"})
                statuses.append("response.completed" in answer.text)
                history = [*history, said("This."), user(f"And {number}? " + "alpha beta gamma delta " * 90)]
            window = await house.handler.shared.habits.window("openai", "of-unknown-window")

    assert statuses == [True] * 24
    assert window < 8000


async def test_where_no_refusal_names_the_window_less_than_was_aimed_at_is_tried_too():
    """A person's words stay, so it cannot become half of what it was."""
    big = "\n".join(f"row {number:06d} alpha beta gamma" for number in range(500))
    history = [user("alpha beta gamma delta " * 750), calls("c1"), result("c1", big)]
    provider = Instead(a_provider(window=6000), answering(400, NUMBERLESS))
    async with a_house(provider, max_output=200, prune=NO_PRUNING, compact=RECORDS) as house:
        answer = await house.chat(history, model="of-unknown-window")

    assert answer.status_code == 200
    assert [record.status for record in provider.provider.received] == [400, 200]
