"""Results that are larger than the window goes on with."""

import json

import pytest

from proxy.server.habits import Habits
from tests.builders import calls, messages_of, result, user
from tests.server.house import NO_PRUNING, a_house, a_provider

pytestmark = pytest.mark.anyio

WINDOW = 128_000


def lines(tokens, label):
    """About so many tokens, no two lines alike."""
    return "\n".join(f"{label} {number:06d} alpha beta gamma" for number in range(tokens // 8))


async def test_one_result_of_more_than_the_window_keeps_head_and_tail_the_same_way_for_ever():
    provider = a_provider(window=WINDOW)
    big = lines(150_000, "row")
    history = [user("Look at it."), calls("c1"), result("c1", big)]
    async with a_house(provider, window=WINDOW, max_output=4_000, prune=NO_PRUNING) as house:
        first = await house.chat(history)
        second = await house.chat([*history, {"role": "assistant", "content": "Seen."}, user("And?")])

    assert (first.status_code, second.status_code) == (200, 200)
    cut = messages_of(provider.received[0].body)[2]["content"]
    assert len(cut) < len(big) / 2
    assert cut.startswith("row 000000")
    assert big.endswith(cut[-60:])
    assert f"of {len(big):,} characters left out here" in cut
    assert messages_of(provider.received[1].body)[2]["content"] == cut
    assert [record.status for record in provider.received] == [200, 200]


async def test_several_results_that_are_too_much_together_are_cut_to_one_level():
    provider = a_provider(window=WINDOW)
    ids = ("c1", "c2", "c3", "c4")
    asked = calls("c1")
    asked["tool_calls"] = [{**asked["tool_calls"][0], "id": name} for name in ids]
    sizes = dict(zip(ids, (500, 50_000, 50_000, 50_000), strict=True))
    history = [user("Look."), asked, *(result(name, lines(size, name)) for name, size in sizes.items())]
    async with a_house(provider, window=WINDOW, max_output=4_000) as house:
        answer = await house.chat(history)

    assert answer.status_code == 200
    assert [record.status for record in provider.received] == [200]
    sent = messages_of(provider.received[0].body)
    assert sent[2]["content"] == history[2]["content"]
    assert all("characters left out here" in json.dumps(message) for message in sent[3:6])


async def test_an_empty_refusal_of_a_small_request_is_no_overflow():
    provider = a_provider(window=WINDOW)
    provider.refuse_next(400, b"")
    async with a_house(provider, window=WINDOW, max_output=4_000) as house:
        refused = await house.chat([user("Hello.")])
        answer = await house.chat([user("Hello again.")])

    assert (refused.status_code, answer.status_code) == (400, 200)
    assert len(provider.received) == 2


class Listing:
    """A provider in front of which a list of models names the window."""

    def __init__(self, provider, window):
        self.provider = provider
        self.body = json.dumps({"data": [{"id": "unlisted-model", "max_model_len": window}]}).encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["method"] == "GET":
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": self.body})
            return
        await self.provider(scope, receive, send)


async def test_a_window_in_the_list_of_models_is_learned_as_it_passes_by():
    upstream = Listing(a_provider(window=4_000), 4_000)
    history = [user("Look."), calls("c1"), result("c1", lines(9_000, "row"))]
    async with a_house(upstream) as house:
        listed = await house.http.get("/v1/models")
        answer = await house.chat(history, model="unlisted-model")
        kept = await Habits(house.ledger).window("openai", "unlisted-model")

    assert listed.content == upstream.body
    assert answer.status_code == 200
    assert [record.status for record in upstream.provider.received] == [200]
    assert kept == 4_000


async def test_what_nobody_can_make_fit_passes_and_is_said_once(capsys):
    provider = a_provider(window=WINDOW)
    history = [{"role": "system", "content": lines(5_000, "rule")}, user("Hello.")]
    async with a_house(provider, window=4_000, max_output=500) as house:
        for _ in range(3):
            answer = await house.chat(history)

            assert answer.status_code == 200

    assert json.loads(provider.received[-1].body)["messages"] == history
    assert capsys.readouterr().out.count("fixed_part_over_limit") == 1


PICTURE = "iVBORw0KGgo="
BIG = lines(9_000, "row")
# An unseen result that alone is more than the window, as it stands in each wire format: an error, or beside a picture.
ALONE = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [
                user("Look."),
                calls("c1"),
                {
                    "role": "tool",
                    "tool_call_id": "c1",
                    "content": [
                        {"type": "text", "text": BIG},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
                    ],
                },
            ]
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": "Look."},
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [
                        {"type": "input_text", "text": BIG},
                        {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
                    ],
                },
            ],
            "store": False,
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 500,
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "is_error": True,
                            "content": [
                                {"type": "text", "text": BIG},
                                {
                                    "type": "image",
                                    "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
                                },
                            ],
                        }
                    ],
                },
            ],
        },
    ),
    "gemini": (
        "/v1beta/models/gpt-4o:generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "name": "read",
                                "response": {"error": BIG},
                                "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}],
                            }
                        }
                    ],
                },
            ]
        },
    ),
}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(("path", "body"), ALONE.values(), ids=ALONE.keys())
async def test_an_error_with_a_picture_that_alone_is_more_than_the_window_is_cut(path, body, told):
    """Told: the window is known beforehand; else the refusal names it, and the call is rescued."""
    provider = a_provider(window=8_000)
    async with a_house(provider, window=8_000 if told else None, max_output=500) as house:
        answer = await house.http.post(
            path,
            json={"model": "gpt-4o" if told else "of-unknown-window", **body},
            headers={"authorization": "Bearer k1"},
        )

    statuses = [record.status for record in provider.received]
    sent = provider.received[-1].body.decode()
    assert answer.status_code == 200
    assert statuses == ([200] if told else [400, 200])
    assert "characters left out here" in sent
    assert "row 000000" in sent
    assert BIG.splitlines()[-1] in sent
    assert PICTURE in sent
    assert sent.count('"is_error":') == (path == "/v1/messages")
    assert sent.count('"error":') == ("v1beta" in path)
