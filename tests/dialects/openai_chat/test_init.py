import json

import pytest

from proxy.dialects import dialect_for

CHAT = dialect_for("/v1/chat/completions")


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/up/groq/openai/v1/chat/completions", "/openai/deployments/d/chat/completions"]
)
def test_its_path_is_known_under_any_prefix(path):
    assert dialect_for(path) is CHAT
    assert CHAT.is_count(path) is False


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/chat/completions/", "/v1/chat/completions/id", "/v1/models", "/"]
)
def test_other_paths_are_not_its_own(path):
    assert dialect_for(path) is not CHAT


def test_a_tool_message_has_one_result():
    assert json.loads(CHAT.replace_results(b'{"role":"tool","content":"old"}', {0: "new"}))["content"] == "new"


def test_a_users_message_is_a_whole_element():
    assert json.loads(CHAT.user_message('é "\n')) == {"role": "user", "content": 'é "\n'}


def test_what_a_provider_refuses_is_recognised():
    said = json.dumps({"error": {"message": "This model's maximum context length is 128000 tokens."}}).encode()

    assert CHAT.refusal(400, said).window == 128_000
    assert CHAT.refusal(400, b"property 'stream_options' is unsupported").kind == "usage_option"
    assert CHAT.refusal(429, said) is None


def test_our_errors_have_the_form_that_its_clients_know():
    body = json.loads(CHAT.error_body(502, "upstream_error", "what and why"))

    assert body == {
        "error": {"message": "what and why", "type": "upstream_error", "param": None, "code": "upstream_error"}
    }
