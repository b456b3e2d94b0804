import json

import pytest

from proxy.dialects.openai_chat import OpenAIChat
from proxy.dialects.unannounced import reader_for
from proxy.tokens.usage import Usage

USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":%b}\n\ndata: [DONE]\n\n' % json.dumps(USAGE).encode()
)
WHOLE = json.dumps(
    {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}], "usage": USAGE}
).encode()


def read(body, *, announced, wanted, step=1):
    reader = reader_for(OpenAIChat(), announced=announced, wanted=wanted)
    for start in range(0, len(body), step):
        reader.feed(body[start : start + step])
    return reader.finish(complete=True)


@pytest.mark.parametrize("lead", [b"", b"\n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("body", [STREAM, WHOLE])
@pytest.mark.parametrize("step", [1, 1000])
def test_the_first_byte_tells_where_the_headers_do_not(body, lead, step):
    seen = read(lead + body, announced=False, wanted=True, step=step)

    assert (seen.usage, seen.outcome) == (Usage(input_tokens=10, output_tokens=5), "ok")


@pytest.mark.parametrize(
    ("body", "announced", "wanted"), [(STREAM, True, True), (STREAM, True, False), (WHOLE, False, False)]
)
def test_else_the_headers_tell(body, announced, wanted):
    assert read(body, announced=announced, wanted=wanted).outcome == "ok"


def test_an_answer_of_nothing_is_no_whole_one():
    assert read(b"\n\n", announced=False, wanted=True).outcome == "truncated"
