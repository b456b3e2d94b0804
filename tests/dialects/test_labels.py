import json

import pytest

from proxy.dialects.labels import label_of


@pytest.mark.parametrize(
    "header",
    [
        "x-context-session",
        "x-claude-code-session-id",
        "session-id",
        "session_id",
        "thread-id",
        "x-opencode-session",
        "x-session-affinity",
        "conversation_id",
        "x-kilocode-taskid",
        "x-openwebui-chat-id",
        "x-grok-conv-id",
        "x-mux-workspace-id",
        "x-coder-chat-id",
        "x-affinity",
        "vscode-sessionid",
    ],
)
def test_a_clients_header_names_its_session(header):
    assert label_of({header: "s1"}, {}) == "s1"


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "s1"})}},
        {"metadata": {"user_id": "user_ab_account__session_s1"}},
        {"metadata": {"session_id": "s1"}},
        {"metadata": {"sessionId": "s1", "promptId": "p"}},
        {"session_id": "s1"},
        {"sessionId": "s1"},
        {"prompt_cache_key": "s1"},
        {"conversation": "s1"},
        {"conversation": {"id": "s1"}},
    ],
)
def test_a_field_names_the_session(fields):
    assert label_of({}, fields) == "s1"


def test_the_users_own_name_comes_before_the_clients_and_headers_before_fields():
    named = {"x-context-session": "mine", "session-id": "client"}

    assert label_of(named, {"prompt_cache_key": "field"}) == "mine"
    assert label_of({"session-id": "client"}, {"prompt_cache_key": "field"}) == "client"


@pytest.mark.parametrize("odd", ["", "two words", "line\nbreak", "é", "x" * 513, 5, None, ["s"], {"id": "s"}])
def test_an_odd_name_is_no_name(odd):
    assert label_of({}, {"prompt_cache_key": odd}) == ""


@pytest.mark.parametrize("user_id", ["alice", "{broken", "[]", '{"session_id":5}', '{"other":1}', 7, "{}"])
def test_a_user_is_not_a_session(user_id):
    assert label_of({}, {"metadata": {"user_id": user_id}}) == ""
    assert label_of({}, {"user": "alice", "metadata": None}) == ""
