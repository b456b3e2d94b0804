import json

import pytest

from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for

MESSAGES = dialect_for("/v1/messages")
VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models"


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("/v1/messages", False),
        ("/up/openrouter/v1/messages", False),
        ("/anthropic/v1/messages", False),
        (f"/up/vertex{VERTEX}/claude-x@1:rawPredict", False),
        (f"/up/vertex{VERTEX}/claude-x@1:streamRawPredict", False),
        ("/v1/messages/count_tokens", True),
        ("/up/x/v1/messages/count_tokens", True),
        (f"{VERTEX}/count-tokens:rawPredict", True),
    ],
)
def test_its_paths_are_known_under_any_prefix(path, counts):
    assert dialect_for(path) is MESSAGES
    assert MESSAGES.is_count(path) is counts


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/batches",
        "/v1/threads/t1/messages",
        "/v1/messages/",
        "/messages",
        "/v1/complete",
        f"{VERTEX}/x:predict",
    ],
)
def test_other_paths_are_not_its_own(path):
    assert dialect_for(path) is not MESSAGES


def test_usage_is_always_reported_and_nothing_is_hidden():
    view = MESSAGES.view("/v1/messages", {}, b'{"messages":[],"stream":true}', Recall())

    assert view.asks_usage
    assert MESSAGES.ask_usage(view) == ()
    assert not MESSAGES.is_usage_only(b'{"type":"message_delta","usage":{"output_tokens":1}}')


def test_a_users_message_is_a_whole_element():
    assert json.loads(MESSAGES.user_message('é "\n')) == {"role": "user", "content": 'é "\n'}


def test_an_overflow_and_a_broken_signature_are_recognised():
    said = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 200000 maximum"},
    }
    signature = {"error": {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}}

    assert MESSAGES.refusal(400, json.dumps(said).encode()).window == 200_000
    assert MESSAGES.refusal(400, json.dumps(signature).encode()).kind == "reasoning"
    assert MESSAGES.refusal(529, json.dumps(said).encode()) is None


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (500, "proxy_error", "api_error"),
        (502, "upstream_error", "api_error"),
        (504, "upstream_error", "timeout_error"),
    ],
)
def test_our_errors_have_types_that_its_clients_know(status, kind, said):
    body = json.loads(MESSAGES.error_body(status, kind, "what and why"))

    assert body == {"type": "error", "error": {"type": said, "message": "what and why"}}
