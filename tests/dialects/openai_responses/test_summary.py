import json

from proxy.dialects.openai_responses.summary import continued, fresh

ITEM = b'{"type": "message",  "role": "user", "content": "go"}'


def a_body(**fields):
    rest = "".join(f', "{name}": {json.dumps(value)}' for name, value in fields.items())
    return b'{"model": "m", "input": [' + ITEM + b"]" + rest.encode() + b"}"


def test_a_fresh_call_is_not_stored():
    assert json.loads(fresh("m", "be brief", "what was?", 50)) == {
        "model": "m",
        "instructions": "be brief",
        "input": "what was?",
        "max_output_tokens": 50,
        "store": False,
    }


def test_a_continued_call_keeps_the_items_and_drops_what_spoils_a_summary():
    made = continued(a_body(stream=True, text={"format": {}}, background=True, store=True), 50)

    assert ITEM in made
    assert json.loads(made) == {"model": "m", "input": [json.loads(ITEM)], "store": False}


def test_tools_stay_for_the_cache_and_are_not_to_be_called():
    made = json.loads(continued(a_body(tools=[{"type": "function"}], max_output_tokens=9), 50))

    assert (made["tools"], made["tool_choice"], made["max_output_tokens"]) == ([{"type": "function"}], "none", 50)
