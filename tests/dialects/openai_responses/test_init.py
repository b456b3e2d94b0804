import json

import pytest

from proxy.conversation.edit import Insert, Plan, Replace, Summarise
from proxy.conversation.fingerprint import prefix_keys
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.lens import apply_plan
from proxy.dialects.openai_responses.items import parse_item

DIALECT = dialect_for("/v1/responses")


def applied(body: bytes, *make):
    """The body under a plan whose edits are made from the prefix keys."""
    view = DIALECT.view("/v1/responses", {}, body, Recall())
    keys = prefix_keys(b"seed", view.conversation.messages)
    return apply_plan(DIALECT, view, keys, Plan(tuple(edit(keys) for edit in make)))


def clear(index):
    return lambda keys: Replace(
        at=keys[index], part=0, kind="clear", text="short", reason="", tool="", tokens_before=9, tokens_after=1
    )


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/openai/v1/responses", "/api/v1/responses", "/v1/responses/input_tokens"]
)
def test_requests_and_counts_are_read(path):
    assert dialect_for(path).name == "openai_responses"
    assert DIALECT.is_count(path) == path.endswith("input_tokens")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/responses/compact",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/responses/resp_1/input_items",
    ],
)
def test_everything_else_under_responses_is_relayed_unread(path):
    assert dialect_for(path) is None


def test_an_old_list_of_parts_is_pruned_and_a_new_one_with_a_picture_stays():
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    schema = {"reasoning": {"type": "string"}, "label": {"enum": ["b", "a"]}}
    items = [
        {"role": "user", "content": "go"},
        {"type": "future_item", "payload": "x"},
        {"type": "function_call", "call_id": "k1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k1", "output": [{"type": "input_text", "text": "long"}]},
        {"type": "function_call", "call_id": "k2", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k2", "output": [{"type": "input_text", "text": "see"}, image]},
    ]
    body = json.dumps({"text": {"format": {"schema": {"properties": schema}}}, "input": items}).encode()
    made = applied(body, clear(3))
    after = json.loads(made.body)

    assert after["input"][3] == {**items[3], "output": [{"type": "input_text", "text": "short"}]}
    assert after["input"][:3] + after["input"][4:] == items[:3] + items[4:]
    assert list(after["text"]["format"]["schema"]["properties"]) == ["reasoning", "label"]


def test_a_plain_string_is_never_rewritten():
    body = b'{"input":"hello"}'
    made = applied(
        body,
        lambda keys: Insert(after=keys[0], text="more", tokens_after=1),
        lambda keys: Summarise(
            first=keys[0], last=keys[0], text="s", reason="", tokens_before=2, tokens_after=1, by_model=False
        ),
    )

    assert made.body is body
    assert made.standing == ()


def test_a_user_message_reads_as_one():
    read = parse_item(DIALECT.user_message("hi \ud800"))

    assert (read.role, read.parts[0].text) == ("user", "hi \ud800")


def test_a_reasoning_item_goes_as_an_element_and_nothing_else_does():
    item = b'{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}'
    call = b'{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}'

    assert DIALECT.strip_reasoning(item) == b""
    assert DIALECT.strip_reasoning(call) is call


def test_usage_is_never_asked_for():
    view = DIALECT.view("/v1/responses", {}, b'{"input":"x","stream":true}', Recall())

    assert view.asks_usage
    assert DIALECT.ask_usage(view) == ()
    assert not DIALECT.is_usage_only(b'{"usage":{"input_tokens":1}}')


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", "overflow"),
        ("Item 'rs_1' of type 'reasoning' was provided without its required following item.", "reasoning"),
        (
            "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
            "reasoning",
        ),
        ("The encrypted content gAAA... could not be verified.", "reasoning"),
        ("No tool output found for function call call_1.", None),
    ],
)
def test_refusals_are_understood(text, kind):
    found = DIALECT.refusal(400, DIALECT.error_body(400, "invalid_request_error", text))

    assert (found.kind if found else None) == kind
