import json

import pytest

from proxy.dialects.openai_responses.items import parse_item
from proxy.dialects.openai_responses.rewrite import replace_output


def output(value) -> bytes:
    # Spaces, escapes and an unknown key: whatever is not replaced must stay as it is.
    return b'{ "type":"function_call_output","x":"\\u00e9" , "output" : %s,"call_id":"k1"}' % json.dumps(value).encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long text", "short"),
        (
            [{"type": "input_text", "text": "long"}, {"type": "input_image", "image_url": "data:,"}],
            [{"type": "input_text", "text": "short"}],
        ),
        ([], [{"type": "input_text", "text": "short"}]),
        (
            [
                {"stdout": "a", "stderr": "b", "outcome": {"type": "timeout"}},
                {"stdout": "c", "stderr": "", "outcome": 1},
            ],
            [
                {"stdout": "short", "stderr": "", "outcome": {"type": "timeout"}},
                {"stdout": "", "stderr": "", "outcome": 1},
            ],
        ),
    ],
)
def test_an_output_keeps_its_shape_and_everything_around_it(old, new):
    before, after = output("@"), replace_output(output(old), "short")

    assert json.loads(after)["output"] == new
    assert after.startswith(before.partition(b'"@"')[0])
    assert after.endswith(before.partition(b'"@"')[2])


@pytest.mark.parametrize("old", ["long", [{"type": "input_text", "text": "long"}], [{"stdout": "a", "stderr": "b"}]])
def test_writing_twice_changes_nothing_and_the_text_is_found_again(old):
    once = replace_output(output(old), "short \ud800 é")

    assert replace_output(once, "short \ud800 é") == once
    if "stdout" not in str(old):
        assert parse_item(once).parts[0].text == "short \ud800 é"
