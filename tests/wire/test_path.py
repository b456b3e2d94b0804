import pytest

from proxy.errors import BadRequest
from proxy.wire.path import claimed, route


@pytest.mark.parametrize(
    ("path", "upstream", "rest", "family"),
    [
        # Anthropic's clients have no prefix of their own.
        ("/v1/messages", "anthropic", "/v1/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic", "/v1/messages/count_tokens", "anthropic"),
        ("/v1/messages/batches/b1", "anthropic", "/v1/messages/batches/b1", "anthropic"),
        # Gemini's have several.
        ("/v1beta/models/g:generateContent", "gemini", "/v1beta/models/g:generateContent", "gemini"),
        ("/v1/models/g:countTokens", "gemini", "/v1/models/g:countTokens", "gemini"),
        ("/upload/v1beta/files", "gemini", "/upload/v1beta/files", "gemini"),
        ("/v1alpha/models/g:countTokens", "gemini", "/v1alpha/models/g:countTokens", "gemini"),
        # Everything else is OpenAI's, a fine-tuned model's name with colons too.
        ("/v1/chat/completions", "openai", "/v1/chat/completions", "openai"),
        ("/v1/models/ft:gpt-4o:org::id", "openai", "/v1/models/ft:gpt-4o:org::id", "openai"),
        ("/v1/messagesoid", "openai", "/v1/messagesoid", "openai"),
        ("//v1/messages", "openai", "//v1/messages", "openai"),
        ("/", "openai", "/", "openai"),
        # By name, with the error format of the API that is spoken there.
        ("/up/groq/v1/chat/completions", "groq", "/v1/chat/completions", "openai"),
        ("/up/zai/v1/messages", "zai", "/v1/messages", "anthropic"),
        ("/up/vertex/v1beta/models/g:generateContent", "vertex", "/v1beta/models/g:generateContent", "gemini"),
        ("/up/groq", "groq", "/", "openai"),
    ],
)
def test_path_chooses_the_upstream(path, upstream, rest, family):
    found = route(path)

    assert (found.upstream_name, found.rest_path, found.family) == (upstream, rest, family)


@pytest.mark.parametrize(
    ("path", "header", "upstream"),
    [
        # What several APIs have belongs to the one whose client asks.
        ("/v1/models", b"anthropic-version", "anthropic"),
        ("/v1/files/f1/content", b"anthropic-version", "anthropic"),
        ("/v1/models", b"x-goog-api-key", "gemini"),
        ("/v1/files", b"x-goog-api-client", "gemini"),
        ("/v1/models", b"authorization", "openai"),
        # A path of one API's own is nobody else's, and a name is a name.
        ("/v1/chat/completions", b"anthropic-version", "openai"),
        ("/v1/responses", b"x-goog-api-key", "openai"),
        ("/v1/messages", b"x-goog-api-key", "anthropic"),
        ("/up/openrouter/v1/models", b"anthropic-version", "openrouter"),
    ],
)
def test_a_shared_path_goes_to_the_api_whose_header_comes(path, header, upstream):
    found = claimed(route(path), [(b"host", b"p"), (header, b"x")])

    assert (found.upstream_name, found.rest_path) == (upstream, path.removeprefix("/up/openrouter"))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../admin",
        "/v1/./models",
        "/v1/..",
        "/v1/%2e%2e/admin",
        "/v1/.%2E/admin",
        "/v1/..%2fadmin",
        "/v1/%252e%252e/admin",
        "/v1/%25252e%25252e/admin",
        "/v1//..//admin",
        "/v1/..;x/admin",
        "/v1/%2e%2e%3bx/admin",
        "/up/openai/../anthropic/v1/messages",
        # Backslashes are slashes somewhere.
        "/v1\\..\\admin",
        "/v1/..%5cadmin",
        "/v1/a%5Cb",
        # NUL ends a path somewhere, line ends begin a header.
        "/v1/models%00",
        "/v1/models%2500",
        "/v1/models%0d%0ahost:%20x",
        # An overlong "." that some decoders still read.
        "/v1/%c0%ae%c0%ae/admin",
        # More layers than anybody has a reason for.
        "/v1/%2525252525252541",
    ],
)
def test_path_that_means_something_else_when_normalised_is_refused(path):
    with pytest.raises(BadRequest):
        route(path)


@pytest.mark.parametrize(
    "path", ["/v1/files/a.b..c", "/v1/models/org%2Fname", "/v1/x/...", "/v1/%E2%9C%93", "/v1/a%20b"]
)
def test_dots_inside_names_and_ordinary_escapes_pass_as_they_came(path):
    assert route(path).rest_path == path


def test_a_very_long_path_is_judged_like_a_short_one():
    name = "m" * 1000

    assert route(f"/v1/models/{name}:countTokens").family == "gemini"
    with pytest.raises(BadRequest, match="dot segment"):
        route(f"/v1/{name}/../x")
