import pytest

from proxy.dialects.anthropic_messages.usage import compacted, context_of, merged, normal_form
from proxy.tokens.usage import NOT_REPORTED, Usage

CASES = [
    # The whole input is what is new, what was read and what was written.
    ({"input_tokens": 61, "cache_read_input_tokens": 50_000, "cache_creation_input_tokens": 2000, "output_tokens": 5}, (52_061, 50_000, 2000, 5, None)),
    ({"input_tokens": 50, "cache_read_input_tokens": 190_000, "cache_creation_input_tokens": 700, "output_tokens": 9}, (190_750, 190_000, 700, 9, None)),
    # Vertex in its deltas, and old servers.
    ({"input_tokens": 7, "output_tokens": 3}, (7, None, None, 3, None)),
    ({"output_tokens": 3}, (None, None, None, 3, None)),
    ({"input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 3}, (9, 9, None, 3, None)),
    # Thinking is a part of the output, and never more than it.
    ({"input_tokens": 1, "output_tokens": 168, "output_tokens_details": {"thinking_tokens": 112}}, (1, None, None, 168, 112)),
    ({"input_tokens": 1, "output_tokens": 10, "output_tokens_details": {"thinking_tokens": 12}}, (1, None, None, 10, 10)),
    # A count.
    ({"input_tokens": 641}, (641, None, None, None, None)),
    # Floats, and what is no count.
    ({"input_tokens": 7.0, "output_tokens": "3"}, (7, None, None, None, None)),
    ({"input_tokens": -1, "output_tokens": True}, (None, None, None, None, None)),
    ({"cache_read_input_tokens": 5}, (None, None, None, None, None)),
    ({}, (None, None, None, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), CASES)
def test_c35_c36_usage_is_brought_to_the_normal_form(raw, expected):
    names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")

    assert normal_form(raw) == Usage(**dict(zip(names, expected, strict=True)))


def test_what_is_written_for_an_hour_is_told_apart():
    written = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 20, "output_tokens": 1}
    halves = {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15}

    assert normal_form({**written, "cache_creation": halves}).hour_write_tokens == 15
    assert (
        normal_form({**written, "cache_creation": {**halves, "ephemeral_1h_input_tokens": 0}}).hour_write_tokens is None
    )
    assert normal_form({**written, "cache_creation": None}).hour_write_tokens is None


def test_nothing_reported_is_not_zero():
    assert normal_form({}) is NOT_REPORTED


START = {"input_tokens": 43, "cache_read_input_tokens": 2400, "cache_creation_input_tokens": 120, "output_tokens": 1}


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        # Output alone.
        ({"output_tokens": 77}, (2563, 77)),
        # Input corrected; nulls say nothing.
        ({"input_tokens": 61, "cache_read_input_tokens": None, "output_tokens": 2}, (2581, 2)),
        (
            {"input_tokens": 61, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 2},
            (61, 2),
        ),
        # No prompt is empty: some gateways fill in zeros.
        (
            {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 2},
            (2563, 2),
        ),
        ({"input_tokens": 0, "output_tokens": 2}, (2563, 2)),
        (None, (2563, 1)),
        ("odd", (2563, 1)),
    ],
)
def test_the_last_word_of_a_stream_wins(later, expected):
    usage = normal_form(merged(merged({}, START), later))

    assert (usage.input_tokens, usage.output_tokens) == expected


def test_a_gateway_may_tell_the_input_only_at_the_end():
    usage = normal_form(
        merged(merged({}, {"input_tokens": 0, "output_tokens": 0}), {"input_tokens": 9, "output_tokens": 4})
    )

    assert (usage.input_tokens, usage.output_tokens) == (9, 4)


def iteration(kind, read, wrote, **more):
    return {"type": kind, "input_tokens": read, "output_tokens": wrote, **more}


def test_the_context_goes_on_from_the_last_message_that_was_sampled():
    usage = {
        "input_tokens": 60_997,
        "output_tokens": 3341,
        "iterations": [iteration("compaction", 60_385, 522), iteration("message", 612, 2819)],
    }

    assert context_of(usage) == Usage(input_tokens=612, output_tokens=2819)
    assert compacted(usage)


def test_with_server_tools_the_last_sampling_counts():
    steps = [
        iteration("message", 100, 20),
        iteration("advisor_message", 9000, 900),
        iteration("message", 40, 30, cache_read_input_tokens=1000),
    ]
    usage = {"input_tokens": 140, "output_tokens": 50, "iterations": steps}

    assert context_of(usage) == Usage(input_tokens=1040, cache_read_tokens=1000, output_tokens=30)
    assert not compacted(usage)


@pytest.mark.parametrize("iterations", [None, [], "odd", [7, None], [iteration("compaction", 5, 5)]])
def test_without_samplings_of_the_model_there_is_no_other_context(iterations):
    assert context_of({"input_tokens": 1, "iterations": iterations}) is None


def test_c41_the_parts_of_the_split_form_come_to_the_same_total():
    """1,000 new, 30,000 read and 500 written; 200 said and 50 thought."""
    raw = {"input_tokens": 1000, "cache_read_input_tokens": 30_000, "cache_creation_input_tokens": 500}
    usage = normal_form({**raw, "output_tokens": 250, "output_tokens_details": {"thinking_tokens": 50}})

    assert (usage.input_tokens, usage.output_tokens) == (31_500, 250)
    assert usage.input_tokens + usage.output_tokens == 1000 + 200 + 50 + 30_000 + 500 == 31_750
