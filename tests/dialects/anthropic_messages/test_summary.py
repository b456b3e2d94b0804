import json

import pytest

from proxy.dialects.anthropic_messages.summary import continued, fresh

MESSAGE = b'{"role": "user",  "content": "go"}'


def a_body(**fields):
    rest = "".join(f', "{name}": {json.dumps(value)}' for name, value in fields.items())
    return b'{"model": "m", "max_tokens": 9, "messages": [' + MESSAGE + b"]" + rest.encode() + b"}"


def test_a_fresh_call_asks_one_thing():
    assert json.loads(fresh("m", "be brief", "what was?", 50)) == {
        "model": "m",
        "max_tokens": 50,
        "system": "be brief",
        "messages": [{"role": "user", "content": "what was?"}],
    }


def test_a_continued_call_keeps_the_messages_and_drops_what_spoils_a_summary():
    made = continued(a_body(stream=True, stop_sequences=["x"]), 50)

    assert MESSAGE in made
    assert json.loads(made).keys() == {"model", "max_tokens", "messages"}


@pytest.mark.parametrize(
    ("choice", "kept"), [({"type": "auto"}, True), ({"type": "any"}, False), ({"type": "tool", "name": "f"}, False)]
)
def test_only_a_forced_tool_goes(choice, kept):
    made = json.loads(continued(a_body(tools=[{"name": "f"}], tool_choice=choice), 50))

    assert ("tool_choice" in made) is kept
    assert made["tools"] == [{"name": "f"}]


def test_the_output_limit_stays_above_a_thinking_budget():
    thinking = {"type": "enabled", "budget_tokens": 2000}

    assert json.loads(continued(a_body(thinking=thinking), 50))["max_tokens"] == 2050
    assert json.loads(continued(a_body(thinking={"type": "adaptive"}), 50))["max_tokens"] == 50
