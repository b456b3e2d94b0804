import pytest

from proxy.dialects.labels import label_of

LABELS = [
    # A user's own name for it comes before all.
    ({"x-context-session": "mine", "x-claude-code-session-id": "cc"}, {}, "mine"),
    ({"x-context-session": " fix the login ", "x-claude-code-session-id": "cc"}, {}, "fix the login"),
    ({"x-context-session": "名前 ünï".encode().decode("latin-1")}, {}, "名前 ünï"),
    ({"x-context-session": "ünï"}, {}, "ünï"),
    ({"x-context-session": "\U0001f9d1\u200d\U0001f4bb".encode().decode("latin-1")}, {}, "\U0001f9d1\u200d\U0001f4bb"),
    ({"x-context-session": "a\x1b[31m", "thread-id": "t"}, {}, "t"),
    ({"x-context-session": "x" * 513, "thread-id": "t"}, {}, "t"),
    # Headers of clients.
    ({"x-claude-code-session-id": "0f1e"}, {"metadata": {"user_id": "user_1_account__session_other"}}, "0f1e"),
    ({"session-id": "codex", "thread-id": "thread"}, {}, "codex"),
    ({"session_id": "codex"}, {}, "codex"),
    ({"thread-id": "thread"}, {"prompt_cache_key": "key"}, "thread"),
    ({"x-session-id": "ses_1", "x-session-affinity": "ses_2"}, {}, "ses_1"),
    ({"x-session-affinity": "ses_2"}, {}, "ses_2"),
    # Claude Code's field, as JSON in a string and in its older form.
    ({}, {"metadata": {"user_id": '{"device_id":"d","session_id":"abc"}'}}, "abc"),
    ({}, {"metadata": {"user_id": "user_ab_account__session_de-f0"}}, "de-f0"),
    # Fields of others.
    ({}, {"metadata": {"session_id": "m1"}, "prompt_cache_key": "p"}, "m1"),
    ({}, {"metadata": {"sessionId": "qwen"}}, "qwen"),
    ({}, {"session_id": "openrouter"}, "openrouter"),
    ({}, {"prompt_cache_key": "thread"}, "thread"),
    ({}, {"conversation": {"id": "conv_1"}}, "conv_1"),
    ({}, {"conversation": "conv_2"}, "conv_2"),
    # No names: a user, a request, a family of accounts.
    (
        {"x-request-id": "r", "x-client-request-id": "r"},
        {"user": "u", "safety_identifier": "s", "previous_response_id": "x"},
        "",
    ),
    ({}, {"metadata": {"user_id": "alice"}}, ""),
    ({}, {"metadata": {"user_id": '{"device_id":"d"}'}}, ""),
    ({}, {"metadata": {"user_id": '{"session_id":7}'}}, ""),
    ({}, {"metadata": {"user_id": "{broken"}}, ""),
    ({}, {"metadata": {"user_id": "{\ud83d"}}, ""),
    ({}, {"metadata": {"user_id": '{"a":' * 2000}}, ""),
    ({}, {"metadata": "text", "session_id": ["x"], "prompt_cache_key": 7, "conversation": {"id": None}}, ""),
    ({}, {}, ""),
    # Odd characters and lengths: the next candidate is asked.
    ({"session-id": "two words", "thread-id": "t"}, {}, "t"),
    ({"session-id": "line\nbreak"}, {}, ""),
    ({"session-id": "né"}, {}, ""),
    ({"session-id": ""}, {"prompt_cache_key": "p"}, "p"),
    ({"session-id": "x" * 513}, {}, ""),
    ({"session-id": "x" * 512}, {}, "x" * 512),
]


@pytest.mark.parametrize(("headers", "fields", "label"), LABELS)
def test_a_session_is_called_what_its_client_calls_it(headers, fields, label):
    assert label_of(headers, fields) == label
