import pytest

from proxy.dialects.openai_chat.usage import normal_form, usage_of
from proxy.tokens.usage import NOT_REPORTED

PLAIN = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

# what stands in the answer: input, cached, written, output, reasoning
CASES = [
    ("OpenAI", {**PLAIN, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 3}}, (10, 4, 2, 5, 3)),
    ("OpenAI, a full cache", {"prompt_tokens": 184_704, "completion_tokens": 9, "total_tokens": 184_713, "prompt_tokens_details": {"cached_tokens": 183_936}}, (184_704, 183_936, None, 9, None)),
    ("DeepSeek", {**PLAIN, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2}, (10, 8, None, 5, None)),
    ("DashScope, explicit cache", {**PLAIN, "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 8, "cache_type": "ephemeral"}}, (10, 0, 8, 5, None)),
    ("Vercel's gateway", {**PLAIN, "prompt_tokens_details": {"cached_tokens": 1}, "cache_creation_input_tokens": 7}, (10, 1, 7, 5, None)),
    ("Together, Moonshot", {**PLAIN, "cached_tokens": 6}, (10, 6, None, 5, None)),
    ("xAI hides its reasoning", {"prompt_tokens": 470, "completion_tokens": 68, "total_tokens": 723, "completion_tokens_details": {"reasoning_tokens": 185}}, (470, None, None, 253, 185)),
    ("xAI leaves the cache out", {"prompt_tokens": 500, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2000}}, (2500, 2000, None, 1, None)),
    ("Google hides its thinking", {"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109}, (35, None, None, 74, 62)),
    ("Mistral hides its audio", {"prompt_tokens": 9, "completion_tokens": 248, "total_tokens": 632, "prompt_tokens_details": {"audio_tokens": 375}}, (384, None, None, 248, None)),
    ("MiniMax counts more reasoning than output", {**PLAIN, "completion_tokens_details": {"reasoning_tokens": 6}}, (10, None, None, 5, 5)),
    ("floats", {"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0}, (10, None, None, 5, None)),
    ("nulls", {**PLAIN, "prompt_tokens_details": None, "completion_tokens_details": None}, (10, None, None, 5, None)),
    ("zero is reported", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, (0, None, None, 0, None)),
    ("input alone", {"prompt_tokens": 10}, (10, None, None, None, None)),
    ("a total alone says nothing", {"total_tokens": 15}, (None,) * 5),
    ("nothing that is a count", {"prompt_tokens": "10", "completion_tokens": -1}, (None,) * 5),
    ("a wrong type spoils no other field", {**PLAIN, "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": "1"}, "completion_tokens_details": [3], "reasoning_tokens": 2.0}, (10, 4, None, 5, 2)),
    ("infinite", {"prompt_tokens": float("inf"), "completion_tokens": float("nan")}, (None,) * 5),
]  # fmt: skip


def flat(usage):
    return (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    )


@pytest.mark.parametrize(("raw", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_usage_is_brought_to_the_normal_form(raw, expected):
    assert flat(normal_form(raw)) == expected


@pytest.mark.parametrize(
    "answer",
    [
        {"usage": PLAIN},
        {"x_groq": {"usage": PLAIN}},
        {"usage": None, "x_groq": {"id": "x", "usage": PLAIN}},
        {"choices": [{"usage": PLAIN}]},
        {"usage": {}, "choices": [{"usage": PLAIN}]},
    ],
)
def test_usage_is_found_wherever_it_is_put(answer):
    assert flat(usage_of(answer)) == (10, None, None, 5, None)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"usage": None},
        {"usage": {}},
        {"usage": 7, "choices": []},
        {"choices": "x"},
        {"choices": [None]},
        {"x_groq": 1},
    ],
)
def test_no_usage_is_not_zero(answer):
    assert usage_of(answer) is NOT_REPORTED


def test_c37_what_xai_leaves_out_of_input_and_output_is_put_back():
    cached = {"prompt_tokens": 500, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2000}}
    thought = {"prompt_tokens": 2640, "completion_tokens": 182, "total_tokens": 3494}
    thought["completion_tokens_details"] = {"reasoning_tokens": 672}
    usage = normal_form(thought)

    assert normal_form(cached).input_tokens == 2500
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (2640, 182 + 672, 672)
