import pytest

from proxy.dialects import DIALECTS, dialect_for


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1/models",
        "/v1/embeddings",
        "/v1/messages/batches",
        "/v1/files",
        "/v1/responses/resp_1",
        "/v1/threads/t/messages",
    ],
)
def test_what_no_dialect_reads_is_relayed_unread(path):
    assert dialect_for(path) is None


def test_each_dialect_has_a_name_of_its_own():
    names = [dialect.name for _, dialect in DIALECTS]

    assert len(set(names)) == len({id(dialect) for _, dialect in DIALECTS})


def test_no_path_belongs_to_two_dialects():
    paths = [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1beta/models/gemini-x:generateContent",
        "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict",
    ]
    for path in paths:
        found = {dialect.name for pattern, dialect in DIALECTS if pattern.search(path)}

        assert len(found) == 1, path


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/models/m:generateContent"]
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("before", "behind"), [(b'{"message":', b"}"), (b"", b"")], ids=["in it", "in its place"])
def test_an_error_nested_as_deep_as_can_be_read_is_an_error(path, stream, before, behind):
    said = b'{"error":' + before + b"[" * 1000 + b"1" + b"]" * 1000 + behind + b"}"
    reader = dialect_for(path).reader(stream=stream)
    reader.feed(b"data: " + said + b"\n\n" if stream else said)

    assert reader.finish(complete=True).outcome == "error"
