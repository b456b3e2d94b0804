import pytest

from proxy.dialects.gemini.usage import merged, usage_of
from proxy.tokens.usage import NOT_REPORTED, Usage


def read(**counts) -> Usage:
    return usage_of({"usageMetadata": counts})


def test_thoughts_are_output_and_tool_prompts_are_input():
    seen = read(
        promptTokenCount=147,
        candidatesTokenCount=108,
        totalTokenCount=783,
        toolUsePromptTokenCount=360,
        thoughtsTokenCount=168,
        cachedContentTokenCount=100,
    )

    assert seen == Usage(input_tokens=507, cache_read_tokens=100, output_tokens=276, reasoning_tokens=168)


@pytest.mark.parametrize(
    "answer", [{}, {"usageMetadata": {}}, {"usageMetadata": {"trafficType": "ON_DEMAND"}}, {"usageMetadata": None}]
)
def test_metadata_without_counts_report_nothing(answer):
    assert usage_of(answer) == NOT_REPORTED


def test_output_that_is_not_named_follows_from_the_total():
    assert read(promptTokenCount=14, totalTokenCount=14).output_tokens == 0
    assert read(promptTokenCount=14, toolUsePromptTokenCount=5, totalTokenCount=24).output_tokens == 5
    assert read(promptTokenCount=14).output_tokens is None
    assert read(promptTokenCount=14, thoughtsTokenCount=42, totalTokenCount=56).output_tokens == 42


def test_a_count_is_input_alone():
    assert usage_of({"totalTokens": 61, "cachedContentTokenCount": 9}) == Usage(input_tokens=61, cache_read_tokens=9)


@pytest.mark.parametrize(
    "later",
    [{}, {"promptTokenCount": None, "thoughtsTokenCount": 0}, {"candidatesTokenCount": 4, "promptTokenCount": 0}],
)
def test_what_a_later_chunk_leaves_out_stays_as_it_was(later):
    before = {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}}

    assert usage_of(merged(before, {"usageMetadata": later})) == usage_of(before)


def test_the_last_word_counts():
    before = {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4}}

    assert usage_of(merged(before, {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3}})) == Usage(
        input_tokens=7, output_tokens=3
    )
