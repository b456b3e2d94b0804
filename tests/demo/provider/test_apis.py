"""The table of endpoints."""

import pytest

from proxy.demo.provider.apis import row_for, rows

PATHS = [
    ("/v1/chat/completions", "answer", {}),
    ("/v1/responses", "answer", {}),
    ("/v1/responses/input_tokens", "count", {}),
    ("/v1/messages", "answer", {}),
    ("/v1/messages/count_tokens", "count", {}),
    ("/v1beta/models/m:generateContent", "answer", {"model": "m", "verb": "generateContent"}),
    ("/v1beta/models/m:streamGenerateContent", "answer", {"model": "m", "verb": "streamGenerateContent"}),
    ("/v1beta/models/m:countTokens", "count", {"model": "m", "verb": "countTokens"}),
]


@pytest.mark.parametrize(("path", "verb", "arguments"), PATHS)
def test_every_endpoint_is_found_with_the_parts_of_its_path(path, verb, arguments):
    row, found = row_for(rows(), path)

    assert (row.verb, found) == (verb, arguments)


def test_other_paths_are_nobodys():
    assert row_for(rows(), "/v1/embeddings") is None
