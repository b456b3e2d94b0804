import json

import pytest

from proxy.conversation.edit import Insert, Plan, Replace
from proxy.conversation.fingerprint import prefix_keys
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.gemini.contents import parse_content
from proxy.dialects.lens import apply_plan

PATH = "/v1beta/models/gem-test:generateContent"
DIALECT = dialect_for(PATH)


def applied(body: bytes, *make):
    """The body under a plan whose edits are made from the prefix keys."""
    view = DIALECT.view(PATH, {}, body, Recall())
    keys = prefix_keys(b"seed", view.conversation.messages)
    return apply_plan(DIALECT, view, keys, Plan(tuple(edit(keys) for edit in make)))


def clear(index, part=0):
    return lambda keys: Replace(
        at=keys[index], part=part, kind="clear", text="short", reason="", tool="", tokens_before=9, tokens_after=1
    )


@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "/v1beta/models/gem-test:streamGenerateContent",
        "/v1/models/gem-test:countTokens",
        "/v1beta1/projects/p/locations/global/publishers/google/models/gem-test:generateContent",
        "/v1/projects/p/locations/l/endpoints/123:streamGenerateContent",
        "/v1internal:streamGenerateContent",
    ],
)
def test_requests_and_counts_are_read(path):
    assert dialect_for(path).name == "gemini"
    assert DIALECT.is_count(path) == path.endswith("countTokens")


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/gem-test",
        "/v1beta/models/gem-test:embedContent",
        "/v1beta/models/gem-test:batchGenerateContent",
        "/v1beta/cachedContents",
    ],
)
def test_everything_else_is_relayed_unread(path):
    assert dialect_for(path) is None


def test_signatures_stay_where_a_response_is_pruned():
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}, "thoughtSignature": "AAA+/=="}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {"result": "long"}}}]},
        {
            "role": "model",
            "parts": [
                {"text": "", "thoughtSignature": "BBB=="},
                {"functionCall": {"name": "b", "args": {}}, "thoughtSignature": "CCC=="},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "b", "response": {"result": "bb"}}}]},
    ]
    made = applied(json.dumps({"contents": contents}).encode(), clear(2))
    after = json.loads(made.body)["contents"]

    assert after[2] == {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {"result": "short"}}}]}
    assert after[:2] + after[3:] == contents[:2] + contents[3:]


def test_a_single_content_is_never_rewritten():
    body = b'{"contents":{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"result":"long"}}}]}}'
    made = applied(body, clear(0), lambda keys: Insert(after=keys[0], text="more", tokens_after=1))

    assert made.body is body


def test_a_user_message_reads_as_one():
    read = parse_content(DIALECT.user_message("hi \ud800"))

    assert (read.role, read.parts[0].text) == ("user", "hi \ud800")


def test_usage_is_never_asked_for():
    view = DIALECT.view("/v1beta/models/g:streamGenerateContent", {}, b'{"contents":[]}', Recall())

    assert view.asks_usage
    assert DIALECT.ask_usage(view) == ()
    assert not DIALECT.is_usage_only(b'{"usageMetadata":{"promptTokenCount":1}}')


@pytest.mark.parametrize(
    ("status", "name"), [(400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (502, "UNAVAILABLE"), (418, "INTERNAL")]
)
def test_errors_of_ours_have_googles_form(status, name):
    assert json.loads(DIALECT.error_body(status, "any", "no")) == {
        "error": {"code": status, "message": "no", "status": name}
    }


@pytest.mark.parametrize(
    ("text", "kind", "window"),
    [
        (
            "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
            "overflow",
            1048576,
        ),
        ("Function call is missing a thought_signature in functionCall parts. This is required …", "reasoning", None),
        (
            "Unable to submit request because function call `x` in the 5. content block is missing a `thought_signature`.",
            "reasoning",
            None,
        ),
        ("Corrupted thought signature.", "reasoning", None),
        ("Please use a valid role: user, model.", None, None),
    ],
)
def test_refusals_are_understood(text, kind, window):
    found = DIALECT.refusal(400, DIALECT.error_body(400, "", text))

    assert (found.kind if found else None) == kind
    assert (found.window if found else None) == window
