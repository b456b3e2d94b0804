import json

import pytest

from proxy.dialects.openai_chat.summary import continued, fresh

HISTORY = b'{"role": "user",  "content": "go"}'


def a_body(**fields):
    rest = "".join(f', "{name}": {json.dumps(value)}' for name, value in fields.items())
    return b'{"model": "m", "messages": [' + HISTORY + b"]" + rest.encode() + b"}"


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("gpt-4.1", "max_tokens"),
        ("llama-3.3-70b", "max_tokens"),
        ("o3", "max_completion_tokens"),
        ("openai/gpt-5.4-mini", "max_completion_tokens"),
    ],
)
def test_a_fresh_call_limits_its_answer_by_the_name_that_the_model_knows(model, limit):
    made = json.loads(fresh(model, "be brief", "what was?", 50))

    assert made[limit] == 50
    assert [message["role"] for message in made["messages"]] == ["system", "user"]
    assert made.keys() == {"model", "messages", limit}


def test_a_continued_call_keeps_the_history_and_drops_what_spoils_a_summary():
    made = continued(
        a_body(stream=True, stream_options={"include_usage": True}, response_format={"type": "json"}, stop=["x"], n=2),
        50,
    )

    assert HISTORY in made
    assert json.loads(made).keys() == {"model", "messages"}


def test_tools_stay_for_the_cache_and_are_not_to_be_called():
    made = json.loads(continued(a_body(tools=[{"type": "function"}], tool_choice="required"), 50))

    assert made["tools"] == [{"type": "function"}]
    assert made["tool_choice"] == "none"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_output_limit_is_set_only_where_the_client_set_one(name):
    assert json.loads(continued(a_body(**{name: 9}), 50))[name] == 50
    assert name not in json.loads(continued(a_body(), 50))
