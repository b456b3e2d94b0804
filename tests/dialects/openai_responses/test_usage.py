from proxy.dialects.openai_responses.usage import usage_of
from proxy.tokens.usage import NOT_REPORTED, Usage


def test_cached_and_reasoning_tokens_are_parts():
    usage = {
        "input_tokens": 900,
        "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 43},
        "output_tokens": 33,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 933,
    }

    assert usage_of({"usage": usage}) == Usage(
        input_tokens=900, cache_read_tokens=800, cache_write_tokens=43, output_tokens=33, reasoning_tokens=20
    )


def test_what_is_not_said_is_not_reported():
    assert usage_of({"usage": None}) == usage_of({}) == usage_of({"usage": "many"}) == NOT_REPORTED
    assert usage_of({"usage": {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": None}}) == Usage(
        input_tokens=5, output_tokens=1
    )


def test_reasoning_is_never_more_than_the_output():
    usage = {"input_tokens": 1, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 9}}

    assert usage_of({"usage": usage}).reasoning_tokens == 5


def test_cached_tokens_that_were_left_out_of_the_input_are_put_in():
    usage = {"input_tokens": 11, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 99}}

    assert usage_of({"usage": usage}) == Usage(input_tokens=110, cache_read_tokens=99, output_tokens=5)


def test_a_count_is_input_alone():
    assert usage_of({"object": "response.input_tokens", "input_tokens": 16}) == Usage(input_tokens=16)
