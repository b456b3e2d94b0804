import pytest

from proxy.conversation.names import by_pattern, matches, plain_name


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("GPT-5", "gpt-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4.5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929-v1:0"),
        ("anthropic.claude-3-haiku", "claude-3-haiku"),
        ("", ""),
    ],
)
def test_a_plain_name_has_no_prefix(model, plain):
    assert plain_name(model) == plain


@pytest.mark.parametrize(
    ("clauses", "name", "expected"),
    [
        ("=gpt-5", "gpt-5", True),
        ("=gpt-5", "gpt-5-mini", False),
        ("^gpt-5", "gpt-5-mini", True),
        ("$-mini", "gpt-5-mini", True),
        ("*claude", "us.claude-x", True),
        ("~^o[13]", "o3-pro", True),
        ("~^o[13]", "o4", False),
        ("=a =b", "b", True),
        ("", "anything", False),
    ],
)
def test_a_name_matches_one_of_the_clauses(clauses, name, expected):
    assert matches(clauses, name) is expected


def test_the_longest_fitting_pattern_counts():
    table = {"*": 1, "gpt-*": 2, "gpt-5*": 3, "openai/gpt-5*": 4}

    assert [by_pattern(table, model) for model in ("x", "gpt-4o", "gpt-5-mini", "openai/gpt-5", "OpenAI/GPT-4o")] == [
        1,
        2,
        3,
        4,
        2,
    ]


def test_without_a_fitting_pattern_there_is_none():
    assert by_pattern({"gpt-*": 1}, "claude-x") is None
