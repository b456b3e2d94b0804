import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.usage import NOT_REPORTED, Usage, is_possible

counts = st.one_of(st.none(), st.integers(0, 10**7))
usages = st.builds(
    Usage,
    input_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    output_tokens=counts,
    reasoning_tokens=counts,
)


def test_c39_the_last_word_of_a_stream_wins_field_by_field():
    start = Usage(input_tokens=43, output_tokens=1, cache_read_tokens=7)

    assert start.merged(Usage(input_tokens=61, output_tokens=2)) == Usage(
        input_tokens=61, output_tokens=2, cache_read_tokens=7
    )


def test_a_later_zero_is_a_word_and_absence_is_none():
    assert Usage(reasoning_tokens=5).merged(Usage(reasoning_tokens=0)).reasoning_tokens == 0


@given(usages)
def test_nothing_reported_changes_nothing(usage):
    assert usage.merged(NOT_REPORTED) == usage
    assert NOT_REPORTED.merged(usage) == usage


@pytest.mark.parametrize(
    ("input_tokens", "window", "estimate", "expected"),
    [
        (1000, 128_000, 1000, True),
        (128_000, 128_000, 100_000, True),
        (1000, None, 1000, True),
        # C42: running totals of a gateway.
        (10_000_000, 128_000, 1000, False),
        # C43: only what was evaluated, the cache left out.
        (30, 128_000, 5000, False),
        (1250, 128_000, 5000, True),
        (1, 128_000, 200, True),
        # C6: nothing.
        (0, 128_000, 1000, False),
        (None, 128_000, 1000, False),
        (-5, 128_000, 1000, False),
    ],
)
def test_c42_c43_a_count_that_cannot_be_right_is_refused(input_tokens, window, estimate, expected):
    assert is_possible(Usage(input_tokens=input_tokens), window=window, sent_estimate=estimate) is expected


def test_a_tiny_request_with_tools_is_believed_where_the_server_charges_no_tool_prompt():
    """An Anthropic estimate holds 346 tokens for it; llama.cpp, LiteLLM and vLLM count only what they render."""
    assert is_possible(Usage(input_tokens=62), window=None, sent_estimate=62 + 346)
    assert is_possible(Usage(input_tokens=20), window=None, sent_estimate=20 + 346 + 12)
    assert not is_possible(Usage(input_tokens=62), window=None, sent_estimate=2000)


def test_a_cache_is_kept_for_an_hour_where_most_was_written_so():
    assert Usage(cache_write_tokens=100, hour_write_tokens=51).keeps_an_hour
    assert not Usage(cache_write_tokens=100, hour_write_tokens=50).keeps_an_hour
    assert not Usage(cache_write_tokens=0).keeps_an_hour
    assert not NOT_REPORTED.keeps_an_hour
