import pytest

from proxy.server.events import fields_of
from proxy.server.spoken import spoken
from proxy.tokens.usage import Usage
from tests.builders import a_turn

USAGE = Usage(input_tokens=31_400, cache_read_tokens=28_100, output_tokens=512)


@pytest.mark.parametrize(
    ("turn", "line"),
    [
        (
            a_turn(session="d982ff50b89a9c37", turn=12, model="gpt-5", estimated=31_431, usage=USAGE),
            "d982ff50 #12 openai gpt-5: 31,400 in (estimate +0.1 %), 28,100 of them cached, 512 out",
        ),
        (
            a_turn(
                estimated=80,
                usage=Usage(input_tokens=100, output_tokens=2),
                removed_tokens=16_700,
                new_edits={"clear": 2, "repeat": 1},
            ),
            "s1 #1 openai m: 100 in (estimate -20.0 %), 2 out, 16,700 left out, new: 2 clear 1 repeat",
        ),
        (
            a_turn(would_remove_tokens=1_200, usage=Usage(input_tokens=100)),
            "s1 #1 openai m: 100 in (estimate 0 %), 1,200 would have been left out",
        ),
        (
            a_turn(estimated=9_000, outcome="error", status=429, error_type="rate_limit_exceeded", purpose="summary"),
            "s1 #1 openai m (summary): error 429 rate_limit_exceeded, about 9,000 in",
        ),
        (
            a_turn(outcome="client_closed", failed_open="prepare"),
            "s1 #1 openai m: client_closed, about 100 in, sent as it came: prepare failed",
        ),
    ],
)
def test_a_call_is_said_in_a_line(turn, line):
    assert spoken(fields_of(turn)) == line
